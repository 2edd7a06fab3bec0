//! The arguments of a call, read one by one. Models write `"10"` for `10` and `null` for nothing; both are accepted.

use serde_json::{Map, Value};

use super::ToolError;

pub(super) struct ToolArguments(Map<String, Value>);

impl ToolArguments {
    pub(super) fn new(arguments: Map<String, Value>) -> Self {
        Self(arguments)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A required, non-empty text.
    pub(super) fn required_text(&self, name: &str) -> Result<String, ToolError> {
        match self.text(name)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(ToolError::new(format!("`{name}` is required"))),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ToolError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(ToolError::new(format!("`{name}` must be a text"))),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ToolError> {
        let number = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_u64().or_else(|| to_u64(number.as_f64()?)),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(ToolError::new(format!(
                "`{name}` must be a whole number, 0 or more"
            ))),
        }
    }

    /// A count: the default if missing, clamped to the range.
    pub(super) fn size(
        &self,
        name: &str,
        default: usize,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, ToolError> {
        let number = self.number(name)?.map_or(default, |number| {
            usize::try_from(number).unwrap_or(usize::MAX)
        });
        Ok(number.clamp(*range.start(), *range.end()))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ToolError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(ToolError::new(format!("`{name}` must be true or false"))),
        }
    }

    /// One of these words; the first is the default, unless the argument is required.
    pub(super) fn choice(
        &self,
        name: &str,
        choices: &[&'static str],
    ) -> Result<&'static str, ToolError> {
        let Some(text) = self.text(name)? else {
            return choices
                .first()
                .copied()
                .ok_or_else(|| ToolError::new(format!("`{name}` is required")));
        };
        choices
            .iter()
            .find(|choice| **choice == text)
            .copied()
            .ok_or_else(|| {
                ToolError::new(format!(
                    "`{name}` must be one of {}, not `{text}`",
                    choices.join(", ")
                ))
            })
    }

    pub(super) fn required_choice(
        &self,
        name: &str,
        choices: &[&'static str],
    ) -> Result<&'static str, ToolError> {
        match self.get(name) {
            Some(_) => self.choice(name, choices),
            None => Err(ToolError::new(format!(
                "`{name}` is required: {}",
                choices.join(", ")
            ))),
        }
    }

    /// A list of texts; a single text is a list of one.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, ToolError> {
        let wrong = || ToolError::new(format!("`{name}` must be a list of texts"));
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text.clone()]),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect(),
            Some(_) => Err(wrong()),
        }
    }

    /// A list of objects, or nothing.
    pub(super) fn objects(&self, name: &str) -> Result<Option<Vec<Self>>, ToolError> {
        let wrong = || ToolError::new(format!("`{name}` must be a list of objects"));
        match self.get(name) {
            None => Ok(None),
            Some(Value::Array(items)) => {
                let objects = items
                    .iter()
                    .map(|item| item.as_object().cloned().map(Self).ok_or_else(wrong));
                objects.collect::<Result<_, _>>().map(Some)
            }
            Some(_) => Err(wrong()),
        }
    }

    /// An object, if the argument is one.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        self.get(name)?.as_object().cloned().map(Self)
    }

    /// Whether an argument is present, whatever its value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the guard leaves whole numbers that fit"
)]
fn to_u64(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=9e15).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: &Value) -> ToolArguments {
        ToolArguments::new(value.as_object().unwrap().clone())
    }

    #[test]
    fn what_models_mean_is_understood() {
        let read =
            arguments(&json!({"n": "10", "f": 3.0, "no": null, "flag": "true", "list": "x"}));
        assert_eq!(read.number("n").unwrap(), Some(10));
        assert_eq!(read.number("f").unwrap(), Some(3));
        assert_eq!(read.number("no").unwrap(), None);
        assert!(read.flag("flag").unwrap());
        assert_eq!(read.texts("list").unwrap(), ["x"]);
        assert_eq!(read.size("n", 5, 1..=7).unwrap(), 7);
        assert_eq!(read.size("missing", 5, 1..=7).unwrap(), 5);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let read = arguments(&json!({"n": -1, "t": [], "c": "z", "list": [1]}));
        for (problem, expected) in [
            (read.number("n").unwrap_err(), "`n` must be a whole number"),
            (read.text("t").unwrap_err(), "`t` must be a text"),
            (
                read.choice("c", &["a", "b"]).unwrap_err(),
                "one of a, b, not `z`",
            ),
            (read.texts("list").unwrap_err(), "`list` must be a list"),
            (
                read.required_text("missing").unwrap_err(),
                "`missing` is required",
            ),
        ] {
            assert!(problem.to_string().contains(expected), "{problem}");
        }
    }
}
