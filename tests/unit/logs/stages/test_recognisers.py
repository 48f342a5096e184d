"""Personal data as typed, by class, and what only resembles it."""

import pytest

from nextquery.logs.stages.recognisers import recognise


@pytest.mark.parametrize(
    "text",
    [
        "+49 30 901820", "030 901820", "01 42 68 53 00", "(11) 91234-5678", "0049 30 901820",
        "8 (495) 123-45-67", "tel 555 0142", "whatsapp: 5550142",  # phones
        "GB82 WEST 1234 5698 7654 32", "529.982.247-25", "12345678Z",  # numbers with check digits
        "8.8.8.8", "who is 2001:4860:4860::8888",  # addresses of the public network
        "born 12/05/1970", "dob 1970-05-12", "born on 12th of may 1980", "May 12, 1980 birthday",
        "123 main st springfield il 62704", "12 oak ave #4", "Hauptstraße 5, 10115 Berlin",
        "12 rue de la paix 75002 paris", "10 downing street sw1a 2aa",
        "ab12 cde", "AB-123-CD", "B-MW 1234", "license plate 4abc123",
    ],
)  # fmt: skip
def test_personal_data_is_recognised_as_typed(text: str) -> None:
    assert recognise(text)


@pytest.mark.parametrize(
    "text",
    [
        "12345-6789", "2006-05-01", "12.05.1970", "1990 2000", "1914-1918", "20060501", "555 0142",
        "GB82 WEST 1234 5698 7654 33", "123.456.789-00", "12345678A",
        "192.168.1.1", "10.0.0.1", "999.1.1.1", "1.2.3", "std::vector", "12:30:45", "::",
        "happy birthday", "born in 1970", "born february 22 1732", "21 jump street",
        "4 star hotels park avenue", "wi-fi 6", "co-op 24 hour", "us-china 2006 trade", "x-men 3",
    ],
)  # fmt: skip
def test_what_resembles_it_passes(text: str) -> None:
    assert not recognise(text)
