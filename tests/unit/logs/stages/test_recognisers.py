"""Personal data as typed, by class, and what only resembles it."""

import pytest

from nextquery.logs.privacy import looks_personal_typed, recognise


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


LATER = [
    "bob.smith@company.io", "email: a.b-c_d@uni.edu", "bob(at)company.io", "bob at gmail.com",
    "bob[at]gmail[dot]com", "BOB@GMAIL", "bob@localhost", "用户@例子.公司", "bob AT gmail DOT com",
    "+353 1 234 5678", "01 234 5678", "+45 20 12 34 56", "20 12 34 56", "+47 22 12 34 56",
    "+358 40 123 4567", "040 123 4567", "+65 6123 4567", "+852 2123 4567", "0921 123 456",
    "+420 777 123 456", "777 123 456", "0030 210 1234567", "210 1234567", "+972-3-123-4567",
    "03-123-4567", "054-1234567", "+66 2 123 4567", "02 123 4567", "+84 24 1234 5678",
    "+62 21 1234567", "+92 51 1234567", "+234 1 123 4567", "0171/1234567", "(030) 12345678",
    "+1 (604) 555-0100", "604.555.0100", "tel: 0761-123456", "mobile 0491 570 156",
    "020 8366 1177", "+3906 698 12345", "333 1234567", "11 4123-4567", "+54 11 4123-4567",
    "123-45-6789", "536-22-8726", "JG103759A", "jg 10 37 59 a", "00000000T", "Z8078221M",
    "VRDGPP13R10B293P", "850101-1236", "290290-1234", "756.1234.5678.97", "935.411.347-80",
    "4991 1866 5246", "AAAPL1234C", "1 85 05 78 006 084 91", "9001049818080",
    "BE 85.07.30-033.28", "85073003328", "PESEL 02070803628", "SIN 130 692 544", "bsn 123456782",
    "born 3 march 1985", "my birthday is 03/03/1985", "date of birth: March 3rd, 1985",
    "fecha de nacimiento 03/03/1985", "dob 030385", "d.o.b. 3-3-85",
    "1.1.1.1", "ip 185.60.216.35", "2a00:1450:4001:81b::200e",
    "4 privet drive little whinging gu24 9pp", "350 fifth avenue new york ny 10118",
    "55 rue du faubourg saint honoré 75008 paris", "unter den linden 77 10117 berlin",
    "piazza navona 12, 00186 roma", "1 infinite loop cupertino ca 95014",
    "77 massachusetts ave apt 3b", "calle de alcalá 45, 28014 madrid",
    "musterstr. 1 12345 musterstadt",
    "KA19 ABC", "M-XY 4567", "GB-123-XZ", "licence plate abc 123", "kennzeichen b ab 123",
    "8-ABC-12",
]  # fmt: skip
LATER_HARMLESS = [
    "top 10 movies 2005", "2004 2005 2006 calendar", "12-24-36 month cd rates",
    "1/2 3/4 5/8 drill bits", "texas 1836 1845", "nfl 2005-2006 season", "5.1.2 surround",
    "area code 212", "zip code 90210", "211 main", "mark 10 45 bible", "psalm 23 1 6",
    "lotto 6 49 results", "02 09 2006", "dell 1720 3100 5150", "450 000 000 years ago",
    "chevy 350 400 454", "a4 b5 1.8t", "hp 56 57 58 ink", "1099 misc 2005",
    "w2 2004 form 1040 ez", "9-11 facts", "50 cent 21 questions", "90210 episode 1 2 3",
    "80 20 rule", "pi 3.141592653", "route 1 9", "born 1985", "birth of a nation 1915",
    "birthday july 4", "avenue q", "5th avenue", "road runner 98.6", "k mart 24 hour",
    "channel 5 news 10 pm", "f 150 4x4 2004", "mp3 128 kbps", "hotels near 10 downing street",
    "123 street", "rt 202", "m-audio 24 96", "x-box 360", "e-z pass ny 511", "u-haul 26 ft",
    "d-day 1944", "catch-22 1961", "t-mobile 611", "us-ma 2005",
]  # fmt: skip


def test_cases_written_after_the_rules_do_nearly_as_well() -> None:
    """The figures of docs/explanation/privacy.md."""
    assert sum(map(looks_personal_typed, LATER)) == 78
    assert len(LATER) == 87
    assert sum(map(looks_personal_typed, LATER_HARMLESS)) == 3
    assert len(LATER_HARMLESS) == 48
