//! Strict JSON: valid UTF-8, no duplicate members, limited nesting.

use std::{borrow::Cow, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::Problem;

const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Object,
    List,
    Scalar,
}

pub(crate) fn parse_strict(bytes: &[u8]) -> Result<Value, Problem> {
    check_strict(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| invalid_json(&error))
}

pub(crate) fn check_strict(bytes: &[u8]) -> Result<JsonKind, Problem> {
    check_strict_at(bytes, 0)
}

/// The same for a part of a document that is nested so deep in it.
pub(crate) fn check_strict_at(bytes: &[u8], depth: usize) -> Result<JsonKind, Problem> {
    if std::str::from_utf8(bytes).is_err() {
        return Err(Problem::invalid("the body is not valid UTF-8"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let root = StrictScanner { depth }
        .deserialize(&mut deserializer)
        .map_err(|error| invalid_json(&error))?;
    deserializer.end().map_err(|error| invalid_json(&error))?;
    Ok(root)
}

fn invalid_json(error: &serde_json::Error) -> Problem {
    Problem::invalid(format!("the body is not usable JSON: {error}"))
}

#[derive(Clone, Copy)]
struct StrictScanner {
    depth: usize,
}

impl StrictScanner {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(format_args!(
                "values are nested deeper than {MAX_DEPTH}"
            )));
        }
        Ok(Self {
            depth: self.depth + 1,
        })
    }
}

impl<'de> DeserializeSeed<'de> for StrictScanner {
    type Value = JsonKind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonKind, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictScanner {
    type Value = JsonKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<JsonKind, E> {
        Ok(JsonKind::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<JsonKind, E> {
        Ok(JsonKind::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<JsonKind, E> {
        Ok(JsonKind::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<JsonKind, E> {
        Ok(JsonKind::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<JsonKind, E> {
        Ok(JsonKind::Scalar)
    }

    fn visit_unit<E>(self) -> Result<JsonKind, E> {
        Ok(JsonKind::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonKind, A::Error> {
        let inside = self.deeper()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(JsonKind::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonKind, A::Error> {
        let inside = self.deeper()?;
        let mut names: Vec<Cow<'de, str>> = Vec::new();
        while let Some(name) = members.next_key_seed(MemberName)? {
            names.push(name);
            members.next_value_seed(inside)?;
        }
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(A::Error::custom(format_args!("`{}` occurs twice", pair[0]))),
            None => Ok(JsonKind::Object),
        }
    }
}

/// Reads an object that is nested `DEPTH` deep in a document, as strictly as [`check_strict`] checks it. For documents
/// that are read only once.
pub(crate) fn deserialize_strict_object<'de, const DEPTH: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    match (StrictReader { depth: DEPTH }).deserialize(deserializer)? {
        Value::Object(members) => Ok(members),
        _ => Err(D::Error::custom("not an object")),
    }
}

#[derive(Clone, Copy)]
struct StrictReader {
    depth: usize,
}

impl StrictReader {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let StrictScanner { depth } = StrictScanner { depth: self.depth }.deeper()?;
        Ok(Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for StrictReader {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictReader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inside)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.deeper()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("`{name}` occurs twice")));
            }
            let value = members.next_value_seed(inside)?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

/// A member's name, borrowed if possible.
struct MemberName;

impl<'de> DeserializeSeed<'de> for MemberName {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for MemberName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> String {
        parse_strict(bytes).unwrap_err().message
    }

    #[test]
    fn ordinary_documents_are_read() {
        let value = parse_strict(br#"{"a": [1, {"b": null}], "c": "\u00e4"}"#).unwrap();
        assert_eq!(value["a"][1]["b"], Value::Null);
        assert_eq!(check_strict(b"[]").unwrap(), JsonKind::List);
        assert_eq!(check_strict(b" 1 ").unwrap(), JsonKind::Scalar);
    }

    #[test]
    fn a_member_may_occur_once_only() {
        assert!(told(br#"{"a": {"b": 1, "c": 2, "b": 3}}"#).contains("`b` occurs twice"));
        assert!(told(br#"{"\u0061": 1, "a": 2}"#).contains("`a` occurs twice"));
        assert!(parse_strict(br#"[{"a": 1}, {"a": 2}]"#).is_ok());
    }

    #[test]
    fn nesting_has_an_end() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_strict(nested(64).as_bytes()).is_ok());
        assert!(told(nested(65).as_bytes()).contains("nested deeper than 64"));
        assert!(parse_strict(nested(100_000).as_bytes()).is_err());
    }

    #[test]
    fn what_is_read_once_is_read_as_strictly_as_it_is_checked() {
        #[derive(Debug, serde::Deserialize)]
        struct Document {
            #[serde(deserialize_with = "deserialize_strict_object::<1, _>")]
            inner: Map<String, Value>,
        }
        let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let (deepest, deeper) = (nested(62), nested(63));
        for inner in [
            "{}",
            r#"{"a": [1, -2, 3.5, true, null, "\u00e4"], "b": {"a": 18446744073709551615}}"#,
            r#"{"b": 1, "b": 2}"#,
            r#"{"a": [{"b": 1, "\u0062": 2}]}"#,
            &format!(r#"{{"a": {deepest}}}"#),
            &format!(r#"{{"a": {deeper}}}"#),
            "[]",
            "null",
            "1",
            "{",
        ] {
            let text = format!(r#"{{"inner": {inner}}}"#);
            let read =
                serde_json::from_str::<Document>(&text).map(|read| Value::Object(read.inner));
            let expected = parse_strict(text.as_bytes()).map(|value| value["inner"].clone());
            match expected {
                Ok(value @ Value::Object(_)) => assert_eq!(read.unwrap(), value, "{inner}"),
                _ => assert!(read.is_err(), "{inner}"),
            }
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bytes in [
            &b""[..],
            b"{",
            b"{} {}",
            b"nan",
            b"{\"a\": \"\xff\"}",
            b"\"\xc3\x28\"",
        ] {
            assert!(parse_strict(bytes).is_err(), "{bytes:?}");
        }
    }
}
