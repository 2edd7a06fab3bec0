//! Values that must not be shown: a wrapper that prints nothing of them, and the masked form for people.

use std::fmt;

/// A value that neither `Debug` nor `Display` shows.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; every use is a place to review.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The form in which a secret may be shown: `abcd***wxyz`, or `***` up to 8 characters.
pub fn mask(value: &str) -> String {
    let length = value.chars().count();
    if length <= 8 {
        return "***".into();
    }
    let first: String = value.chars().take(4).collect();
    let last: String = value.chars().skip(length - 4).collect();
    format!("{first}***{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_of_its_value() {
        let secret = Secret::new(String::from("hunter2"));
        assert!(!format!("{secret:?} {secret} {secret:#?}").contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn eight_characters_are_masked_whole() {
        assert_eq!(mask(""), "***");
        assert_eq!(mask("12345678"), "***");
        assert_eq!(mask("ääääßßßß"), "***");
    }

    #[test]
    fn longer_values_keep_four_characters_on_each_side() {
        assert_eq!(mask("abcd-secret-wxyz"), "abcd***wxyz");
        assert_eq!(mask("äöüß12345€€€€"), "äöüß***€€€€");
    }
}
