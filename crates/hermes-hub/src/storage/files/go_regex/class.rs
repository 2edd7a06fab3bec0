//! Character classes: `[...]`, `\d` and its like, `\p{...}`, and the named classes of Go: general categories and
//! scripts. Others that the `regex` crate accepts are refused, as Go does.

use std::fmt::Write;

use super::{Cursor, PatternError, escape};

pub(super) const NOTHING: &str = r"[^\x00-\x{10FFFF}]";
const EVERYTHING: &str = r"[\x00-\x{10FFFF}]";

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Parses a class in brackets; the cursor is on the `[`.
pub(super) fn parse_brackets(cursor: &mut Cursor<'_>) -> Result<String, PatternError> {
    let start = *cursor;
    cursor.next();
    let is_negated = cursor.eat("^");
    let mut members = String::new();
    let mut is_first = true;
    loop {
        match cursor.peek() {
            None => return Err(start.error_here("a `[` is not closed")),
            Some(']') if !is_first => break,
            _ => {}
        }
        is_first = false;
        if let Some(class) = parse_posix(cursor)? {
            members.push_str(&class);
        } else if let Some(class) = parse_property(cursor)? {
            members.push_str(&class);
        } else if let Some(class) = parse_perl(cursor) {
            members.push_str(class);
        } else {
            parse_range(cursor, &start, &mut members)?;
        }
    }
    cursor.next();
    Ok(match (is_negated, members.is_empty()) {
        (false, true) => NOTHING.to_owned(),
        (true, true) => EVERYTHING.to_owned(),
        (false, false) => format!("[{members}]"),
        (true, false) => format!("[^{members}]"),
    })
}

/// `[:alpha:]`, `[:^alpha:]`. Without a later `:]`, the `[` is a member like any other.
fn parse_posix(cursor: &mut Cursor<'_>) -> Result<Option<String>, PatternError> {
    let rest = cursor.rest();
    let Some(end) = rest
        .strip_prefix("[:")
        .and_then(|after| after.find(":]").map(|at| at + 4))
    else {
        return Ok(None);
    };
    let class = &rest[..end];
    let name = &class[2..end - 2];
    if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(cursor.error_here(format!("`{class}` is not a class")));
    }
    cursor.skip(end);
    Ok(Some(class.to_owned()))
}

/// `\d`, `\s`, `\w` and their opposites, for ASCII only.
pub(super) fn parse_perl(cursor: &mut Cursor<'_>) -> Option<&'static str> {
    let class = match cursor.rest().get(..2)? {
        r"\d" => "[0-9]",
        r"\D" => "[^0-9]",
        r"\s" => r"[\t\n\f\r ]",
        r"\S" => r"[^\t\n\f\r ]",
        r"\w" => "[0-9A-Za-z_]",
        r"\W" => "[^0-9A-Za-z_]",
        _ => return None,
    };
    cursor.skip(2);
    Some(class)
}

/// `\pL`, `\p{Greek}`, `\P{Greek}`, `\p{^Greek}`.
pub(super) fn parse_property(cursor: &mut Cursor<'_>) -> Result<Option<String>, PatternError> {
    let start = *cursor;
    let mut is_negated = match cursor.rest().get(..2) {
        Some(r"\p") => false,
        Some(r"\P") => true,
        _ => return Ok(None),
    };
    cursor.skip(2);
    let name = if cursor.eat("{") {
        let Some(length) = cursor.rest().find('}') else {
            return Err(start.error_here("a `{` after `\\p` is not closed"));
        };
        let name = &cursor.rest()[..length];
        cursor.skip(length + 1);
        name
    } else {
        let letter = *cursor;
        cursor.next();
        cursor.since(&letter)
    };
    let name = match name.strip_prefix('^') {
        Some(name) => {
            is_negated = !is_negated;
            name
        }
        None => name,
    };
    let Some(known) = find_class(name) else {
        return Err(start.error_here(format!(
            "`{}` is not a character class",
            cursor.since(&start)
        )));
    };
    Ok(Some(match (known, is_negated) {
        // Text contains no surrogates.
        ("Cs", false) => NOTHING.to_owned(),
        ("Cs", true) => EVERYTHING.to_owned(),
        (known, false) => format!(r"\p{{{known}}}"),
        (known, true) => format!(r"\P{{{known}}}"),
    }))
}

/// A member, or a range of them.
fn parse_range(
    cursor: &mut Cursor<'_>,
    class: &Cursor<'_>,
    members: &mut String,
) -> Result<(), PatternError> {
    let start = *cursor;
    let low = parse_member(cursor, class)?;
    let mut high = low;
    let mut after = cursor.rest().chars();
    if after.next() == Some('-') && after.next().is_some_and(|next| next != ']') {
        cursor.next();
        high = parse_member(cursor, class)?;
        if high < low {
            return Err(start.error_here(format!(
                "the range `{}` goes backwards",
                cursor.since(&start)
            )));
        }
    }
    // Text contains no surrogates, and the expression may not name them.
    let low = if is_surrogate(low) { 0xe000 } else { low };
    let high = if is_surrogate(high) { 0xd7ff } else { high };
    if low > high {
        return Ok(());
    }
    push_member(low, members);
    if high > low {
        members.push('-');
        push_member(high, members);
    }
    Ok(())
}

fn parse_member(cursor: &mut Cursor<'_>, class: &Cursor<'_>) -> Result<u32, PatternError> {
    match cursor.peek() {
        None => Err(class.error_here("a `[` is not closed")),
        Some('\\') => escape::parse_escape(cursor),
        Some(character) => {
            cursor.next();
            Ok(u32::from(character))
        }
    }
}

pub(super) fn is_surrogate(value: u32) -> bool {
    (0xd800..=0xdfff).contains(&value)
}

fn push_member(value: u32, members: &mut String) {
    match char::from_u32(value) {
        Some(character) if character.is_alphanumeric() || character.is_ascii_punctuation() => {
            members.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
        }
        _ => {
            let _ = write!(members, r"\x{{{value:X}}}");
        }
    }
}

/// The name of a class for `regex`, if Go knows it. As in Go, case, `_`, `-` and spaces are ignored.
pub(super) fn find_class(name: &str) -> Option<&'static str> {
    let wanted = normalize_name(name);
    CATEGORIES
        .iter()
        .find(|(short, long)| {
            normalize_name(short) == wanted
                || long
                    .split_whitespace()
                    .any(|long| normalize_name(long) == wanted)
        })
        .map(|(short, _)| *short)
        .or_else(|| {
            SCRIPTS
                .into_iter()
                .find(|script| normalize_name(script) == wanted)
        })
}

fn normalize_name(name: &str) -> String {
    name.chars()
        .filter(|character| !matches!(character, '_' | '-' | ' '))
        .map(|character| character.to_ascii_lowercase())
        .collect()
}

/// Categories and their aliases.
pub(super) const CATEGORIES: [(&str, &str); 41] = [
    ("Any", ""),
    ("ASCII", ""),
    ("Assigned", ""),
    ("C", "Other"),
    ("Cc", "Control cntrl"),
    ("Cf", "Format"),
    ("Cn", "Unassigned"),
    ("Co", "Private_Use"),
    ("Cs", "Surrogate"),
    ("L", "Letter"),
    ("LC", "Cased_Letter"),
    ("Ll", "Lowercase_Letter"),
    ("Lm", "Modifier_Letter"),
    ("Lo", "Other_Letter"),
    ("Lt", "Titlecase_Letter"),
    ("Lu", "Uppercase_Letter"),
    ("M", "Mark Combining_Mark"),
    ("Mc", "Spacing_Mark"),
    ("Me", "Enclosing_Mark"),
    ("Mn", "Nonspacing_Mark"),
    ("N", "Number"),
    ("Nd", "Decimal_Number digit"),
    ("Nl", "Letter_Number"),
    ("No", "Other_Number"),
    ("P", "Punctuation punct"),
    ("Pc", "Connector_Punctuation"),
    ("Pd", "Dash_Punctuation"),
    ("Pe", "Close_Punctuation"),
    ("Pf", "Final_Punctuation"),
    ("Pi", "Initial_Punctuation"),
    ("Po", "Other_Punctuation"),
    ("Ps", "Open_Punctuation"),
    ("S", "Symbol"),
    ("Sc", "Currency_Symbol"),
    ("Sk", "Modifier_Symbol"),
    ("Sm", "Math_Symbol"),
    ("So", "Other_Symbol"),
    ("Z", "Separator"),
    ("Zl", "Line_Separator"),
    ("Zp", "Paragraph_Separator"),
    ("Zs", "Space_Separator"),
];

/// Scripts.
#[rustfmt::skip]
pub(super) const SCRIPTS: [&str; 163] = [
    "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum",
    "Bassa_Vah", "Batak", "Bengali", "Bhaiksuki", "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid",
    "Canadian_Aboriginal", "Carian", "Caucasian_Albanian", "Chakma", "Cham", "Cherokee", "Chorasmian",
    "Common", "Coptic", "Cuneiform", "Cypriot", "Cypro_Minoan", "Cyrillic", "Deseret", "Devanagari",
    "Dives_Akuru", "Dogra", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Elymaic", "Ethiopic", "Georgian",
    "Glagolitic", "Gothic", "Grantha", "Greek", "Gujarati", "Gunjala_Gondi", "Gurmukhi", "Han", "Hangul",
    "Hanifi_Rohingya", "Hanunoo", "Hatran", "Hebrew", "Hiragana", "Imperial_Aramaic", "Inherited",
    "Inscriptional_Pahlavi", "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada", "Katakana", "Kawi",
    "Kayah_Li", "Kharoshthi", "Khitan_Small_Script", "Khmer", "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha",
    "Limbu", "Linear_A", "Linear_B", "Lisu", "Lycian", "Lydian", "Mahajani", "Makasar", "Malayalam",
    "Mandaic", "Manichaean", "Marchen", "Masaram_Gondi", "Medefaidrin", "Meetei_Mayek", "Mende_Kikakui",
    "Meroitic_Cursive", "Meroitic_Hieroglyphs", "Miao", "Modi", "Mongolian", "Mro", "Multani", "Myanmar",
    "Nabataean", "Nag_Mundari", "Nandinagari", "New_Tai_Lue", "Newa", "Nko", "Nushu",
    "Nyiakeng_Puachue_Hmong", "Ogham", "Ol_Chiki", "Old_Hungarian", "Old_Italic", "Old_North_Arabian",
    "Old_Permic", "Old_Persian", "Old_Sogdian", "Old_South_Arabian", "Old_Turkic", "Old_Uyghur", "Oriya",
    "Osage", "Osmanya", "Pahawh_Hmong", "Palmyrene", "Pau_Cin_Hau", "Phags_Pa", "Phoenician",
    "Psalter_Pahlavi", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian", "Siddham",
    "SignWriting", "Sinhala", "Sogdian", "Sora_Sompeng", "Soyombo", "Sundanese", "Syloti_Nagri", "Syriac",
    "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri", "Tamil", "Tangsa", "Tangut", "Telugu",
    "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta", "Toto", "Ugaritic", "Vai", "Vithkuqi", "Wancho",
    "Warang_Citi", "Yezidi", "Yi", "Zanabazar_Square",
];
