//! Parts that operations of other families show and change: the model, MCP servers, platforms, limits.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{ManifestPart, ManifestRun, in_part, reply_value, to_snake_case};
use crate::{
    Problem, ProblemCode,
    api_types::PartOutcome,
    service::{call::Reply, limits, mcp_servers, model, platforms},
};

/// Members of a platform that are secrets.
const PLATFORM_SECRETS: [&str; 2] = ["token", "appToken"];

impl ManifestRun {
    pub(super) async fn apply_model(&mut self, wanted: &Map<String, Value>) -> Result<(), Problem> {
        let members = snake_members(wanted);
        let before = match self.part_input("model", Map::new())? {
            Some((call, input)) => reply_value(&model::get(call, input).await?)?,
            None => Value::Null,
        };
        if self.note_members("model", &before, wanted, &[]) {
            return Ok(());
        }
        if let Some((call, input)) = self.part_input("model", members)? {
            self.made("model", model::update(call, input).await)?;
        }
        Ok(())
    }

    pub(super) async fn apply_servers(
        &mut self,
        servers: BTreeMap<String, Option<Map<String, Value>>>,
    ) -> Result<(), Problem> {
        for (name, wanted) in servers {
            let part = format!("mcpServers.{name}");
            let server = Map::from_iter([("server".to_owned(), json!(name))]);
            let before = match self.part_input(&part, server.clone())? {
                Some((call, input)) => shown(mcp_servers::get(call, input).await)?,
                None => Value::Null,
            };
            let before = before.get("config").cloned().unwrap_or_default();
            let after = wanted.clone().map_or(Value::Null, Value::Object);
            let compared = ManifestPart::compared(&part, before, after);
            let is_same = compared.outcome == PartOutcome::Unchanged;
            // An entry may have a secret in it.
            self.parts.push(ManifestPart::new(&part, compared.outcome));
            if is_same || self.is_dry {
                continue;
            }
            let done = match wanted {
                None => match self.part_input(&part, server)? {
                    Some((call, input)) => mcp_servers::delete(call, input).await,
                    None => continue,
                },
                Some(config) => {
                    let mut members = server;
                    members.insert("config".into(), config.into());
                    match self.part_input(&part, members)? {
                        Some((call, input)) => mcp_servers::put(call, input).await,
                        None => continue,
                    }
                }
            };
            self.made(&part, done)?;
        }
        Ok(())
    }

    pub(super) async fn apply_platforms(
        &mut self,
        wanted: BTreeMap<String, Option<Map<String, Value>>>,
    ) -> Result<(), Problem> {
        for (name, members) in wanted {
            let part = format!("platforms.{name}");
            let platform = Map::from_iter([("platform".to_owned(), json!(name))]);
            let before = match self.part_input(&part, platform.clone())? {
                Some((call, input)) => shown(platforms::get(call, input).await)?,
                None => Value::Null,
            };
            let is_there = ["tokenEnv", "allowFrom", "enabled"]
                .iter()
                .any(|member| !is_empty(&before[*member]));
            let Some(members) = members else {
                let outcome = if is_there {
                    PartOutcome::Removed
                } else {
                    PartOutcome::Unchanged
                };
                self.parts.push(ManifestPart::new(&part, outcome));
                if is_there
                    && !self.is_dry
                    && let Some((call, input)) = self.part_input(&part, platform)?
                {
                    self.made(&part, platforms::delete(call, input).await)?;
                }
                continue;
            };
            let members = without_default_token(&name, members);
            if self.note_members(&part, &before, &members, &PLATFORM_SECRETS) {
                continue;
            }
            let mut input = snake_members(&members);
            input.extend(platform);
            if let Some((call, input)) = self.part_input(&part, input)? {
                self.made(&part, platforms::put(call, input).await)?;
            }
        }
        Ok(())
    }

    pub(super) async fn apply_limits(
        &mut self,
        wanted: &Map<String, Value>,
    ) -> Result<(), Problem> {
        let members = snake_members(wanted);
        let before = match self.part_input("limits", Map::new())? {
            Some((call, input)) => reply_value(&limits::get(call, input).await?)?,
            None => Value::Null,
        };
        if self.note_members("limits", &before, wanted, &[]) {
            return Ok(());
        }
        if let Some((call, input)) = self.part_input("limits", members)? {
            self.made("limits", limits::patch(call, input).await)?;
        }
        Ok(())
    }

    /// Notes a part by its members, without secret ones. Returns whether there is nothing to do.
    fn note_members(
        &mut self,
        part: &str,
        before: &Value,
        wanted: &Map<String, Value>,
        secrets: &[&str],
    ) -> bool {
        let has_secret = wanted.keys().any(|name| secrets.contains(&name.as_str()));
        let shown = wanted
            .iter()
            .filter(|(name, _)| !secrets.contains(&name.as_str()));
        let after: Map<String, Value> = shown
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let present = |name: &String| before.get(name).cloned().unwrap_or_default();
        let before_members: Map<String, Value> = after
            .keys()
            .map(|name| (name.clone(), present(name)))
            .collect();
        let has_any = before_members.values().any(|value| !is_empty(value));
        // Nothing is what nothing was asked for.
        let is_known = has_any || after.values().all(Value::is_null);
        let before = if is_known {
            Value::Object(before_members)
        } else {
            Value::Null
        };
        let mut compared = ManifestPart::compared(part, before, after.into());
        if has_secret && compared.outcome == PartOutcome::Unchanged {
            compared.outcome = PartOutcome::Changed;
        }
        let is_same = compared.outcome == PartOutcome::Unchanged;
        self.parts.push(compared);
        is_same || self.is_dry
    }

    /// A part that failed was not made.
    pub(super) fn made(&mut self, part: &str, done: Result<Reply, Problem>) -> Result<(), Problem> {
        match done {
            Ok(_) => Ok(()),
            Err(problem) => {
                self.parts.retain(|known| known.part != part);
                Err(in_part(part)(problem))
            }
        }
    }
}

/// A platform looks for its token in a variable of a certain name by itself, now or when that is set.
pub(super) fn without_default_token(
    platform: &str,
    mut members: Map<String, Value>,
) -> Map<String, Value> {
    let default = format!("{}_BOT_TOKEN", platform.to_ascii_uppercase());
    if members.get("tokenEnv").and_then(Value::as_str) == Some(default.as_str()) {
        members.shift_remove("tokenEnv");
    }
    members
}

/// What an operation shows where nothing was set.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// What an operation shows; nothing if there is none.
fn shown(reply: Result<Reply, Problem>) -> Result<Value, Problem> {
    match reply {
        Ok(reply) => reply_value(&reply),
        Err(problem) if problem.code == ProblemCode::NotFound => Ok(Value::Null),
        Err(problem) => Err(problem),
    }
}

pub(super) fn snake_members(members: &Map<String, Value>) -> Map<String, Value> {
    let members = members.iter();
    members
        .map(|(name, value)| (to_snake_case(name), value.clone()))
        .collect()
}
