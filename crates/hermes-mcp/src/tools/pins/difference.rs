//! What is different between two definitions, for people to read.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// The members that differ, in the order of the definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DefinitionDiff {
    members: Vec<ChangedMember>,
}

/// One member that differs. What is not there is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedMember {
    /// Where it is: `inputSchema.properties.path`.
    pub place: String,
    /// What was accepted.
    pub before: Option<Value>,
    /// What it is now.
    pub after: Option<Value>,
}

impl DefinitionDiff {
    pub(super) fn between(before: &Value, after: &Value) -> Self {
        let mut difference = Self::default();
        difference.compare("", Some(before), Some(after));
        difference
    }

    /// Each member that differs.
    pub fn members(&self) -> &[ChangedMember] {
        &self.members
    }

    fn compare(&mut self, place: &str, before: Option<&Value>, after: Option<&Value>) {
        let is_there = |value: &&Value| !value.is_null();
        let (before, after) = (before.filter(is_there), after.filter(is_there));
        if before == after {
            return;
        }
        if let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) {
            let gone = old.keys().filter(|key| !new.contains_key(*key));
            for key in new.keys().chain(gone) {
                let place = match place {
                    "" => key.clone(),
                    _ => format!("{place}.{key}"),
                };
                self.compare(&place, old.get(key), new.get(key));
            }
            return;
        }
        self.members.push(ChangedMember {
            place: place.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        });
    }
}

/// Lines with `-` for what was and `+` for what is. Characters that cannot be seen are spelled out, since they are how
/// instructions are hidden from people.
impl fmt::Display for DefinitionDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, member) in self.members.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:", member.place.escape_debug())?;
            for (sign, value) in [('-', &member.before), ('+', &member.after)] {
                match value {
                    Some(Value::String(text)) => write!(f, "\n  {sign} {text:?}")?,
                    Some(other) => write!(f, "\n  {sign} {}", other.to_string().escape_debug())?,
                    None => {}
                }
            }
        }
        Ok(())
    }
}
