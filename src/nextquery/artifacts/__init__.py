"""Artifact folders: what every data, model and report folder has in common.

An artifact is a folder with a `manifest.json` that names its kind, its settings, the versions that
made it, and the size and SHA-256 of every file. It appears complete or not at all (`publishing`;
single files: `files`), is read from one folder whatever is renamed meanwhile (`folder`), and is
checked whenever it is opened (`manifest`). Files are JSON, text, npy without objects, safetensors,
Parquet and tries: nothing in a folder is ever unpickled. docs/reference/files.md says what the
files mean.
"""

from nextquery.artifacts.files import replaced_file, sha256, write_text
from nextquery.artifacts.folder import Artifact, open_artifact, read_artifact
from nextquery.artifacts.manifest import MANIFEST, further_entries, versions, write_manifest
from nextquery.artifacts.publishing import abandon, check_target, publish, temporary_folder

__all__ = [
    "MANIFEST",
    "Artifact",
    "abandon",
    "check_target",
    "further_entries",
    "open_artifact",
    "publish",
    "read_artifact",
    "replaced_file",
    "sha256",
    "temporary_folder",
    "versions",
    "write_manifest",
    "write_text",
]
