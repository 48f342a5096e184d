"""Personal data as people type it, by class, and phrases that only resemble it.

All of it is made up: reserved names, numbers that test suites and authorities publish as examples.
"""

PERSONAL = {
    "mail addresses": (
        "jane.doe@example.com", "mail jane_doe@example.org", "JANE@EXAMPLE.NET", "j@example.co.uk",
        "jane+shop@example.com password", "jane.doe@gmail.com", "jdoe1980@yahoo.com",
        "who is jdoe@hotmail.com", "info@beispiel.de", "müller@beispiel.de", "jane@mail.example.fr",
        "jane-doe@gmx.de", "jane@web.de", "doe.jane@outlook.com", "jane@icloud.com", "jane@aol.com",
        "jane at example dot com", "jane dot doe at gmail dot com", "jane [at] example [dot] org",
        "jane(at)example.com", "jane @ example.com", "mailto:jane@example.com",
    ),
    "phones, United States": (
        "(212) 555-0142", "212-555-0142", "212.555.0142", "call 555-0142", "+1 212 555 0142",
        "1-212-555-0142", "2125550142", "phone 2125550142", "tel 555 0142 new york",
    ),
    "phones elsewhere": (
        "+44 20 7946 0018", "020 7946 0018", "0161 496 0018", "07700 900118", "+49 30 901820",
        "030 901820", "0151 12345678", "089/1234567", "+33 1 42 68 53 00", "01 42 68 53 00",
        "06 12 34 56 78", "+39 06 6982 1234", "06 6982 1234", "+34 912 34 56 78", "912 34 56 78",
        "+31 20 123 4567", "020 123 4567", "+41 44 668 18 00", "044 668 18 00", "+43 1 58858 0",
        "+46 8 123 456 78", "08-123 456 78", "+48 22 123 45 67", "22 123 45 67",
        "+351 21 123 4567", "+61 2 9374 4000", "(02) 9374 4000", "0412 345 678", "+64 9 123 4567",
        "+91 98765 43210", "098765 43210", "+81 3-1234-5678", "03-1234-5678", "090-1234-5678",
        "+82 2-312-3456", "02-312-3456", "010-2345-6789", "+86 10 1234 5678", "+55 11 2345-6789",
        "(11) 2345-6789", "(11) 91234-5678", "+52 55 1234 5678", "+27 21 123 4567",
        "021 123 4567", "+7 495 123-45-67", "8 (495) 123-45-67", "+90 212 345 67 89",
        "0212 345 67 89",
    ),
    "cards and bank accounts": (
        "4111 1111 1111 1111", "4111-1111-1111-1111", "5500000000000004", "3400 000000 00009",
        "visa 4012 8888 8888 1881 cvv", "GB82 WEST 1234 5698 7654 32",
        "DE89 3704 0044 0532 0130 00", "FR14 2004 1010 0505 0001 3M02 606", "NL91ABNA0417164300",
        "iban CH93 0076 2011 6238 5295 7",
    ),
    "identity numbers": (
        "078-05-1120", "078 05 1120", "AB 12 34 56 C", "ab123456c nino",
        "12345678Z", "X1234567L", "RSSMRA85T10A562S", "2 55 08 14 168 025 38", "811218-9876",
        "19811218-9876", "010190-1234", "131052-308T", "756.9217.0769.85", "111.444.777-35",
        "2341 2341 2346", "ABCPE1234F", "11010519491231002X", "HEGG560427MVZRRL04", "046 454 286",
        "44051401359",
    ),
    "dates of birth": (
        "john doe born 12/05/1970", "date of birth 1970-05-12", "dob 12.05.1970",
        "jane doe birthday may 12 1980", "born on 12 may 1980", "geboren am 12.05.1970",
        "12/05/1970 date of birth", "née 12/05/1980",
    ),
    "IP addresses": (
        "8.8.8.8", "trace 93.184.216.34", "who owns 203.0.114.7",
        "2606:2800:220:1:248:1893:25c8:1946", "ping 2001:4860:4860::8888", "151.101.1.140 location",
    ),
    "postal addresses with a code or unit": (
        "123 main street springfield il 62704", "742 evergreen terrace apt 5", "12 oak ave #4",
        "1600 amphitheatre pkwy mountain view 94043", "221b baker street london nw1 6xe",
        "10 downing street sw1a 2aa", "hauptstraße 5 10115 berlin", "Lindenweg 12, 80331 München",
        "12 rue de la paix 75002 paris", "calle mayor 5 28013 madrid", "via roma 10 00184 roma",
        "24 sussex drive ottawa k1m 1m4",
    ),
    "number plates": (
        "AB12 CDE", "who owns lb07 seo", "AB-123-CD", "B-MW 1234", "m-ab 123", "12-AB-CD",
        "license plate 4abc123", "number plate xyz1234",
    ),
}  # fmt: skip

HARMLESS = {
    "mail phrases": (
        "gmail", "create gmail account", "gmail login page", "open hotmail inbox", "hotmail com",
        "www hotmail com", "sign in to gmail com", "forgot gmail password", "yahoo mail",
        "mail yahoo com", "maps yahoo com", "new hotmail address", "how to use gmail offline",
        "outlook vs gmail comparison", "aol com mail", "protonmail review", "free hotmail com",
        "look at polka dot dress", "meet @ noon", "gmail google com",
    ),
    "numbers": (
        "windows 2000", "12345-6789", "2006-05-01", "12 25 2005", "20060501", "1 800 flowers",
        "boeing 747 400", "9 11 2001", "1990 2000", "1914-1918", "isbn 0 306",
        "iphone 12 64 128 256", "2x4x8 lumber", "4 8 15 16 23 42", "12 5 x 30 inch", "3.14159",
        "route 66 1926", "ford f 150 2004 4x4", "1080 1920 2160", "24 7 365", "chapter 7 11 13",
        "super bowl 2005 2006", "100 000 mile warranty", "8 12 16 20 gauge", "intel 8086 80286",
    ),
    "versions, routers and times": (
        "192.168.1.1", "10.0.0.1", "127.0.0.1", "http://192.168.0.1", "firefox 1.5.0",
        "python 3.11.7", "ios 4.3.5", "12:30:45", "std::vector", "c++ std::map", "16:9 vs 4:3",
    ),
    "birthdays and streets": (
        "happy birthday", "birthday cake ideas", "famous people born in 1970", "new york city",
        "born to run", "42nd street musical", "wall street journal", "10 things to do in rome",
        "sesame street 2006", "main street bakery", "21 jump street", "4 star hotels park avenue",
        "george washington born february 22 1732", "rue morgue", "100 best places",
    ),
    "codes": (
        "mp3 player", "ps2 games", "wi-fi 6", "x-men 3", "b-52 bomber", "t-rex 65 million",
        "f-16 fighter", "kdl40w600b", "core i7 2600k", "ab testing", "us-china 2006 trade",
        "sd card 128gb", "r2 d2", "co-op 24 hour", "e-mail 101",
    ),
}  # fmt: skip
