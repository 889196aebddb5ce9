"""Tables made with Faker. A table depends on its seed alone; the truth of each column is what it was made as."""

from __future__ import annotations

import datetime
import math
import random
import string
from collections.abc import Callable, Iterator
from typing import Any

from faker import Faker

from .columns import STYLES, Column

Make = Callable[[], Any]
Source = Callable[[random.Random, Faker, int], Make]
LOCALES = ("en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "pl_PL", "pt_BR", "sv_SE", "ja_JP")
_NAMING = ("snake", "snake", "snake", "camel", "title", "upper", "numbered")
_LARGE = 20_000
_LARGE_SEEDS = (*range(24, 26), *range(28, 30), *range(74, 76), *range(124, 126), *range(142, 144), *range(174, 176))


# -------------------------------------------------------------------------------------------------------------- sources


def _calls(method: str, **options: Any) -> Source:
    return lambda rng, fake, n: lambda: getattr(fake, method)(**options)


def _lognormal(centres: tuple[float, ...], spread: float, digits: int = 0) -> Source:
    def source(rng: random.Random, fake: Faker, n: int) -> Make:
        middle = math.log(rng.choice(centres))
        return lambda: _rounded(rng.lognormvariate(middle, spread), digits)

    return source


def _normal(mean: float, deviation: float, digits: int = 0) -> Source:
    return lambda rng, fake, n: lambda: _rounded(rng.gauss(mean, deviation), digits)


def _uniform(low: float, high: float, digits: int = 0) -> Source:
    return lambda rng, fake, n: lambda: _rounded(rng.uniform(low, high), digits)


def _counts(mean: float) -> Source:
    """Numbers of events: most are small, and many are 0."""
    return lambda rng, fake, n: lambda: int(rng.expovariate(1 / mean))


def _rounded(value: float, digits: int) -> float:
    return round(value, digits) if digits else round(value)


def _dates(first: int, last: int) -> Source:
    start, days = datetime.date(first, 1, 1), 365 * (last - first)
    return lambda rng, fake, n: lambda: start + datetime.timedelta(days=rng.randrange(days))


def _years(first: int, last: int) -> Source:
    return lambda rng, fake, n: lambda: rng.randrange(first, last)


def _choice(*values: Any) -> Source:
    """A few of these values, unequally frequent."""

    def source(rng: random.Random, fake: Faker, n: int) -> Make:
        own = rng.sample(values, rng.randint(min(3, len(values)), len(values)))
        weights = [1 / (1 + rank) for rank in range(len(own))]
        return lambda: rng.choices(own, weights)[0]

    return source


def _pool(method: str, low: int, high: int) -> Source:
    """Many values, each of them several times."""

    def source(rng: random.Random, fake: Faker, n: int) -> Make:
        values = [getattr(fake, method)() for _ in range(rng.randint(low, high))]
        return lambda: rng.choice(values)

    return source


def _pattern(*patterns: str) -> Source:
    """Codes: # is a digit, ? a capital letter; one pattern per table. Some tables give them out in order."""

    def source(rng: random.Random, fake: Faker, n: int) -> Make:
        pattern = rng.choice(patterns)
        if rng.random() < 0.4 and pattern.count("#") >= 5:
            numbers = _in_order(rng, 1, n)
            head = "".join(rng.choice(string.ascii_uppercase) if one == "?" else one for one in pattern)
            return lambda: _filled(head, next(numbers))
        letters = {"#": string.digits, "?": string.ascii_uppercase}
        return lambda: "".join(rng.choice(letters.get(one, one)) for one in pattern)

    return source


def _numbers_of(digits: int) -> Source:
    """Identifiers that are stored as numbers, such as numbers of customers: at random, or given out in order."""

    def source(rng: random.Random, fake: Faker, n: int) -> Make:
        low, high = 10 ** (digits - 1), 10**digits
        if rng.random() < 0.5:
            return lambda: rng.randrange(low, high)
        numbers = _in_order(rng, rng.randrange(low, high - 10 * n), n)
        return lambda: next(numbers)

    return source


def _in_order(rng: random.Random, first: int, n: int) -> Iterator[int]:
    """Yield n different numbers, of which most follow each other, in a random order."""
    numbers = [first + at for at in sorted(rng.sample(range(2 * n), n))]
    rng.shuffle(numbers)
    return iter(numbers)


def _names(rng: random.Random, fake: Faker, n: int) -> Make:
    """Names of people: all that Faker makes, or of a place where some are frequent."""
    if rng.random() < 0.4:
        return lambda: str(fake.name())
    given = [fake.first_name() for _ in range(rng.randint(20, 200))]
    family = [fake.last_name() for _ in range(rng.randint(30, 400))]
    weights = [[1 / (5 + rank) for rank in range(len(names))] for names in (given, family)]
    return lambda: f"{rng.choices(given, weights[0])[0]} {rng.choices(family, weights[1])[0]}"


def _filled(pattern: str, number: int) -> str:
    """Return a pattern with the digits of a number in place of each #."""
    digits = iter(str(number).zfill(pattern.count("#"))[-pattern.count("#") :])
    return "".join(next(digits) if one == "#" else one for one in pattern)


def _flag(rng: random.Random, fake: Faker, n: int) -> Make:
    share = rng.choice((0.05, 0.3, 0.5, 0.8))
    return lambda: rng.random() < share


def _constant(*values: Any) -> Source:
    def source(rng: random.Random, fake: Faker, n: int) -> Make:
        value = rng.choice(values)
        return lambda: value

    return source


def _text(low: int, high: int) -> Source:
    return lambda rng, fake, n: lambda: fake.sentence(nb_words=rng.randint(low, high))


def _product(rng: random.Random, fake: Faker, n: int) -> Make:
    things = ("Lamp", "Chair", "Kettle", "Speaker", "Keyboard", "Backpack", "Bottle", "Camera", "Drill", "Desk", "Tent")
    brands = [fake.last_name() for _ in range(rng.randint(8, 30))]
    words = [fake.word().title() for _ in range(rng.randint(5, 60))]
    parts = (brands, words, things)
    return lambda: f"{' '.join(map(rng.choice, parts))} {rng.choice('ABCDKLMX')}{rng.randrange(10, 999)}"


def _tags(rng: random.Random, fake: Faker, n: int) -> Make:
    words = sorted({fake.word() for _ in range(40)})
    return lambda: rng.sample(words, rng.randint(1, 4))


# ------------------------------------------------------------------------------------------------------------- domains

# Of each domain: the columns that say what a row is, of which a table has at least one, and other columns.
_Column = tuple[str, str, Source]
_CITY: _Column = ("city", "many categories", _pool("city", 40, 300))
_COUNTRY: _Column = ("country", "many categories", _pool("country", 15, 60))
_ZIP: _Column = ("zip", "zip", _calls("postcode"))
_STREET: _Column = ("street", "text", _calls("street_address"))
_PHONE: _Column = ("phone", "phone", _calls("phone_number"))
_EMAIL: _Column = ("email", "email", _calls("email"))
_NOTE: _Column = ("note", "text", _text(5, 25))
_STATUS: _Column = ("status", "category", _choice("new", "open", "paid", "shipped", "closed", "cancelled"))
_SOURCE: _Column = ("source", "constant text", _constant("import", "web", "v2"))
_VERSION: _Column = ("version", "constant number", _constant(1, 0, 2.5))
_RATING: _Column = ("rating", "rating", lambda rng, fake, n: lambda: rng.randint(1, 5))
_ACTIVE: _Column = ("active", "flag", _flag)
_TAGS: _Column = ("tags", "set", _tags)

DOMAINS: dict[str, tuple[tuple[_Column, ...], tuple[_Column, ...]]] = {
    "people": (
        (("name", "name", _names), _EMAIL),
        (
            ("birth date", "date", _dates(1940, 2005)),
            ("salary", "number", _lognormal((2_500, 32_000, 54_000), 0.35)),
            ("salary text", "money", _lognormal((32_000.0, 54_000.0), 0.4, 2)),
            ("employer", "many categories", _pool("company", 30, 400)),
            ("job", "many categories", _pool("job", 20, 200)),
            ("height", "number", _normal(172, 10)),
            ("weight", "number", _normal(74, 13, 1)),
            ("children", "number", _counts(1.6)),
            ("gender", "category", _choice("female", "male", "other")),
            ("birth year", "year", _years(1940, 2006)),
            ("customer number", "id", _numbers_of(6)),
            ("passport", "code", _pattern("??######", "?#######", "#########")),
            _CITY, _COUNTRY, _ZIP, _STREET, _PHONE, _ACTIVE, _RATING, _NOTE, _SOURCE, _TAGS,
        ),
    ),
    "companies": (
        (("company", "name", _calls("company")), ("vat number", "code", _pattern("DE#########", "GB#########"))),
        (
            ("revenue", "number", _lognormal((250_000, 4_000_000), 1.5)),
            ("revenue text", "money", _lognormal((1_500_000.0,), 1.2, 2)),
            ("employees", "number", _lognormal((25, 120), 1.3)),
            ("founded", "year", _years(1890, 2024)),
            ("margin", "percent", _normal(12, 6, 1)),
            ("growth", "number", _normal(0.05, 0.1, 3)),
            ("industry", "category", _choice("retail", "software", "energy", "food", "health", "banking", "transport")),
            ("legal form", "category", _choice("Ltd", "Inc", "GmbH", "AG", "SA")),
            ("contact", "name", _names),
            ("registered", "date", _dates(1990, 2024)),
            ("slogan", "text", _text(4, 10)),
            ("listed", "flag", _flag),
            _CITY, _COUNTRY, _ZIP, _STREET, _PHONE, _EMAIL, _VERSION, _TAGS,
        ),
    ),
    "products": (
        (("title", "name", _product), ("sku", "code", _pattern("SKU-#####", "???-####", "##-??-###"))),
        (
            ("ean", "code", _calls("ean13")),
            ("price", "number", _lognormal((12.0, 45.0, 180.0), 0.9, 2)),
            ("price text", "money", _lognormal((20.0, 90.0), 0.8, 2)),
            ("discount", "percent", _uniform(0, 60, 1)),
            ("stock", "number", _counts(40)),
            ("weight kg", "number string", _lognormal((0.6, 4.0), 0.8, 2)),
            ("width", "number", _uniform(5, 200, 1)),
            ("brand", "many categories", _pool("last_name", 20, 120)),
            ("category", "category", _choice("garden", "kitchen", "office", "audio", "sport", "toys", "tools")),
            ("colour", "category", _choice("red", "blue", "black", "white", "green", "silver")),
            ("released", "date", _dates(2010, 2025)),
            ("description", "text", _text(8, 30)),
            ("in stock", "flag", _flag),
            _RATING, _SOURCE, _TAGS,
        ),
    ),
    "orders": (
        (("customer", "name", _names), ("order code", "code", _pattern("ORD-######", "#####-??", "0#######"))),
        (
            ("order number", "id", _numbers_of(7)),
            ("ordered", "date", _dates(2019, 2025)),
            ("delivered", "date", _dates(2019, 2025)),
            ("total", "number", _lognormal((60.0, 240.0), 0.9, 2)),
            ("total text", "money", _lognormal((60.0, 900.0), 1.0, 2)),
            ("tax", "percent", _uniform(5, 25, 1)),
            ("items", "number", lambda rng, fake, n: lambda: 1 + int(rng.expovariate(0.4))),
            ("currency", "category", _choice("EUR", "USD", "GBP", "SEK")),
            ("payment", "category", _choice("card", "invoice", "paypal", "cash")),
            ("gift", "flag", _flag),
            ("comment", "text", _text(3, 15)),
            _STATUS, _CITY, _COUNTRY, _ZIP, _STREET, _EMAIL, _PHONE, _VERSION,
        ),
    ),
    "events": (
        (("event", "text", _text(3, 8)), ("organiser", "name", _calls("company"))),
        (
            ("date", "date", _dates(2015, 2026)),
            ("venue", "many categories", _pool("street_name", 20, 150)),
            ("visitors", "number", _lognormal((80, 900), 1.1)),
            ("ticket price", "money", _lognormal((25.0,), 0.6, 2)),
            ("latitude", "coordinate", _uniform(-60, 70, 4)),
            ("longitude", "coordinate", _uniform(-180, 180, 4)),
            ("duration h", "number string", _lognormal((2.5,), 0.5, 1)),
            ("occupancy", "percent", _uniform(10, 100, 1)),
            ("type", "category", _choice("concert", "fair", "lecture", "match", "market", "opera")),
            ("year", "year", _years(2015, 2026)),
            ("free", "flag", _flag),
            ("speaker", "name", _names),
            _CITY, _COUNTRY, _EMAIL, _PHONE, _TAGS, _NOTE,
        ),
    ),
    "patients": (
        (("patient", "name", _names), ("insurance", "code", _pattern("?#########", "###-##-####"))),
        (
            ("admitted", "date", _dates(2005, 2025)),
            ("born", "date", _dates(1930, 2020)),
            ("blood pressure", "number", _normal(128, 17)),
            ("temperature", "number", _normal(37.1, 0.7, 1)),
            ("glucose", "number", _lognormal((95.0,), 0.3, 1)),
            ("crp", "number", _lognormal((4.0,), 1.4, 2)),
            ("bmi", "number string", _normal(26, 4.5, 1)),
            ("saturation", "percent", _uniform(85, 100, 0)),
            ("ward", "category", _choice("surgery", "cardiology", "oncology", "pediatrics", "emergency")),
            ("blood group", "category", _choice("A+", "A-", "B+", "B-", "0+", "0-", "AB+")),
            ("icd", "many categories", _pool("bothify", 20, 80)),
            ("smoker", "flag", _flag),
            ("pain", "rating", lambda rng, fake, n: lambda: rng.randint(0, 10)),
            ("record number", "id", _numbers_of(8)),
            ("diagnosis", "text", _text(4, 18)),
            _CITY, _ZIP, _STREET, _PHONE,
        ),
    ),
    "addresses": (
        (_STREET, ("resident", "name", _names)),
        (
            _CITY, _ZIP, _COUNTRY, _PHONE, _EMAIL, _NOTE, _SOURCE,
            ("house number", "number", lambda rng, fake, n: lambda: 1 + int(rng.expovariate(1 / 30))),
            ("latitude", "coordinate", _uniform(-60, 70, 5)),
            ("longitude", "coordinate", _uniform(-180, 180, 5)),
            ("floor area", "number", _lognormal((85.0,), 0.5, 1)),
            ("rent", "money", _lognormal((900.0,), 0.4, 2)),
            ("built", "year", _years(1850, 2024)),
            ("since", "date", _dates(1980, 2025)),
            ("kind", "category", _choice("house", "flat", "office", "shop")),
            ("owner", "name", _names),
            ("owned", "flag", _flag),
            ("parcel", "code", _pattern("####/##", "##-###-???")),
        ),
    ),
}  # fmt: skip


def table(seed: int, size: int | None = None) -> tuple[list[Column], list[dict[str, Any]], str]:
    """Return the columns of a table, its rows of raw values without those that are missing, and its domain."""
    rng = random.Random(seed)  # noqa: S311
    domain = list(DOMAINS)[seed // 2 % len(DOMAINS)]
    locale = rng.choice(LOCALES)
    fake = Faker(locale)
    fake.seed_instance(seed)
    count = _LARGE if seed in _LARGE_SEEDS else _size(rng)
    count = count if size is None else min(size, count)
    main, others = DOMAINS[domain]
    chosen = [rng.choice(main)] if rng.random() < 0.5 else list(main)
    chosen += rng.sample(others, rng.randint(2, min(10, len(others))))
    rng.shuffle(chosen)
    naming = rng.choice(_NAMING)
    columns, makers = [], []
    if rng.random() < 0.15:  # a key of the row, not of what it describes
        keys = iter(range(1, 10**9)) if rng.random() < 0.5 else None
        columns.append(Column(_named("row id", 0, naming), "id", is_key=True))
        makers.append((lambda keys=keys: next(keys)) if keys else (lambda: str(fake.uuid4())))
    for title, truth, source in chosen:
        missing = rng.choices((0.0, rng.uniform(0.01, 0.3), rng.uniform(0.9, 0.97)), (0.55, 0.37, 0.08))[0]
        missing = 0.0 if title == main[0][0] else missing
        style = rng.choice(STYLES[truth]) if truth in STYLES else ""
        columns.append(Column(_named(title, len(columns), naming), truth, style, missing))
        makers.append(source(rng, fake, count))
    rows = []
    for _ in range(count):
        own = {}
        for column, make in zip(columns, makers, strict=True):
            value = make()
            if rng.random() >= column.missing:
                own[column.name] = value
        rows.append(own)
    return columns, rows, domain


def _size(rng: random.Random) -> int:
    """Return a number of rows from 30 to 3,000, as the larger of two of equally distributed logarithm."""
    return round(math.exp(max(rng.uniform(math.log(30), math.log(3_000)) for _ in range(2))))


def _named(title: str, place: int, naming: str) -> str:
    words = title.split()
    return {
        "snake": "_".join(words),
        "camel": words[0] + "".join(map(str.title, words[1:])),
        "title": title.title(),
        "upper": "_".join(words).upper(),
        "numbered": f"field_{place + 1}",
    }[naming]
