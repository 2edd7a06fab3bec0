//! Parses sizes such as `16 MiB`, `512k`, `1048576`.

pub(super) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|digit: char| !digit.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.checked_mul(1 << unit)
}
