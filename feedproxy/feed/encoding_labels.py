"""The known labels of encodings, and the codec of each.

`codecs.lookup` is not safe for labels from documents: it accepts codecs that are not encodings (`rot13`), and caches
unknown labels permanently.
"""

from encodings import normalize_encoding
from encodings.aliases import aliases

from feedproxy.http.memoize import memoize_short

_NAMES = """
    utf_8 utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be utf_7 ascii latin_1
    iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_9 iso8859_10 iso8859_11
    iso8859_13 iso8859_14 iso8859_15 iso8859_16 cp437 cp850 cp852 cp855 cp866 cp874 cp1250 cp1251 cp1252
    cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 koi8_r koi8_u koi8_t kz1048 ptcp154 tis_620
    mac_roman mac_cyrillic mac_latin2 mac_greek mac_turkish shift_jis cp932 euc_jp iso2022_jp
    gb2312 gbk gb18030 hz big5 big5hkscs cp950 euc_kr cp949 iso2022_kr johab
"""
_CODECS = frozenset(_NAMES.split())
# Labels of the web that Python does not have (WHATWG Encoding Standard, section 4.2).
_MORE_LABELS = {
    "utf_8": "unicode_1_1_utf_8 unicode11utf8 unicode20utf8 x_unicode20utf8",
    "utf_16": "unicode unicodefeff csunicode ucs_2 iso_10646_ucs_2",
    "utf_16_be": "unicodefffe",
    "latin_1": "iso88591",
    "iso8859_6": "iso88596 iso_8859_6_e iso_8859_6_i csiso88596e csiso88596i",
    "iso8859_7": "iso88597 sun_eu_greek",
    "iso8859_8": "iso88598 iso_8859_8_e iso_8859_8_i csiso88598e csiso88598i logical visual",
    "iso8859_15": "iso885915 csisolatin9",
    "koi8_r": "koi koi8",
    "koi8_u": "koi8_ru",
    "mac_roman": "mac csmacintosh x_mac_roman",
    "mac_cyrillic": "x_mac_cyrillic x_mac_ukrainian",
    "shift_jis": "x_sjis",
    "euc_jp": "x_euc_jp cseucpkdfmtjapanese",
    "gb2312": "gb_2312 gb_2312_80 csgb2312",
    "gbk": "x_gbk",
    "big5": "x_x_big5 cn_big5",
    "euc_kr": "cseuckr csksc56011987 iso_ir_149 ks_c_5601_1989 ksc_5601",
    "cp949": "windows_949",
    "cp874": "windows_874 dos_874",
    **{f"iso8859_{part}": f"iso8859{part}" for part in (*range(2, 6), 9, 10, 11, 13, 14)},
    **{f"cp125{page}": f"x_cp125{page}" for page in range(9)},
}
_LABELS = {label: codec for codec, labels in _MORE_LABELS.items() for label in labels.split()}
_LABEL_MAX = 45
_SUPERSETS = {
    # By these names, publishers usually mean the larger character set (WHATWG Encoding Standard, section 4.2).
    "ascii": "cp1252",
    "latin_1": "cp1252",
    "iso8859_9": "cp1254",
    "iso8859_11": "cp874",
    "tis_620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
}
# Decoders disagree on 0x5C and 0x7E: backslash and tilde, or currency sign and overline.
_ASCII_INCOMPATIBLE = frozenset({"shift_jis", "cp932", "iso2022_jp", "euc_kr", "cp949", "johab"})


@memoize_short(entries=256, longest=_LABEL_MAX)
def codec_of(label: str) -> str | None:
    """Return Python's name of the codec for `label`, such as `utf_16_le`, or None for an unknown label."""
    if len(label) > _LABEL_MAX:
        return None
    name = normalize_encoding(label.strip().lower())
    for candidate in (name, _LABELS.get(name), aliases.get(name)):
        if candidate in _CODECS:
            return candidate
    return None


def is_wide(codec: str) -> bool:
    return codec.startswith(("utf_16", "utf_32"))


def superset_of(codec: str) -> str:
    """Return the codec that decodes documents with the label `codec`: a superset of `codec`, or `codec` itself."""
    return _SUPERSETS.get(codec, codec)


def is_ascii_compatible(codec: str) -> bool:
    """Return True if all decoders of this encoding read ASCII bytes as ASCII."""
    return codec not in _ASCII_INCOMPATIBLE
