//! Cron jobs of a document, told apart by their names.

use hermes_store::cron::Schedule;
use jiff::Zoned;
use serde_json::{Map, Value, json};

use super::{ManifestPart, ManifestRun, in_place, pointer, reply_value};
use crate::{Problem, ProblemCode, api_types::PartOutcome, service::cron};

impl ManifestRun {
    /// Every job needs a name, and no two have the same. All of them keep the rules of the policy.
    pub(super) async fn check_jobs(&self, jobs: &[Map<String, Value>]) -> Result<(), Problem> {
        if jobs.is_empty() {
            return Ok(());
        }
        let present = self.present_jobs().await?;
        let mut count = present.len();
        let mut names = Vec::new();
        let now = Zoned::now();
        for (index, job) in jobs.iter().enumerate() {
            let place = ["cron".to_owned(), index.to_string()];
            let refused = |reason: &str| {
                Problem::new(ProblemCode::Unprocessable, format!("`cron`: {reason}"))
                    .with_detail(pointer(&place), reason)
            };
            let name = job.get("name").and_then(Value::as_str).unwrap_or_default();
            if name.is_empty() {
                return Err(refused("a job needs a `name`, by which it is found again"));
            }
            if names.contains(&name) {
                return Err(refused("two jobs have the same `name`"));
            }
            names.push(name);
            let before = present.iter().find(|known| known["name"] == name);
            let checked = if let Some(before) = before {
                let changes = different_members(before, job);
                cron::check_job_changes(&self.call, changes, &now)
            } else {
                count += 1;
                cron::check_new_job(&self.call, job.clone(), count - 1, &now)
            };
            checked.map_err(in_place(&format!("cron.{name}"), &place))?;
        }
        Ok(())
    }

    async fn present_jobs(&self) -> Result<Vec<Value>, Problem> {
        let present = match self.part_input("cron", Map::new())? {
            Some((call, input)) => reply_value(&cron::list(call, input).await?)?,
            None => Value::Null,
        };
        Ok(present["jobs"].as_array().cloned().unwrap_or_default())
    }

    pub(super) async fn apply_jobs(
        &mut self,
        jobs: Vec<Map<String, Value>>,
    ) -> Result<(), Problem> {
        if jobs.is_empty() {
            return Ok(());
        }
        let present = self.present_jobs().await?;
        for job in jobs {
            let name = job.get("name").cloned().unwrap_or_default();
            let part = format!("cron.{}", name.as_str().unwrap_or_default());
            let before = present.iter().find(|known| known["name"] == name);
            let changes = match before {
                Some(before) => different_members(before, &job),
                None => job.clone(),
            };
            let shown = |known: &Value| {
                let members = changes.keys();
                let members =
                    members.map(|member| (member.clone(), known[member.as_str()].clone()));
                Value::Object(members.collect())
            };
            self.parts.push(match before {
                Some(_) if changes.is_empty() => ManifestPart::new(&part, PartOutcome::Unchanged),
                Some(before) => ManifestPart {
                    before: shown(before),
                    after: Value::Object(changes.clone()),
                    ..ManifestPart::new(&part, PartOutcome::Changed)
                },
                None => ManifestPart::compared(&part, Value::Null, Value::Object(job)),
            });
            if changes.is_empty() || self.is_dry {
                continue;
            }
            let done = if let Some(before) = before {
                let members = Map::from_iter([
                    ("job_id".to_owned(), before["id"].clone()),
                    ("patch".to_owned(), changes.into()),
                ]);
                match self.part_input(&part, members)? {
                    Some((call, input)) => cron::update(call, input).await,
                    None => continue,
                }
            } else {
                let members = Map::from_iter([("job".to_owned(), changes.into())]);
                match self.part_input(&part, members)? {
                    Some((call, input)) => cron::create(call, input).await,
                    None => continue,
                }
            };
            self.made(&part, done)?;
        }
        Ok(())
    }
}

/// The members of a wanted job that the present one does not have so.
fn different_members(present: &Value, wanted: &Map<String, Value>) -> Map<String, Value> {
    let is_same = |name: &str, value: &Value| match name {
        "name" | "id" => true,
        "schedule" => is_same_schedule(&present["schedule"], value),
        "repeat" => {
            let times = value.get("times").unwrap_or(value);
            present["repeat"]["times"] == *times
        }
        "skill" => present["skills"] == json!([value]),
        "enabled" => {
            present["enabled"].as_bool().unwrap_or(true) == value.as_bool().unwrap_or(true)
        }
        _ => present.get(name).unwrap_or(&Value::Null) == value,
    };
    let different = wanted.iter().filter(|(name, value)| !is_same(name, value));
    different
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A time that lies a while ahead is another one each time it is read: it is not set again.
fn is_same_schedule(present: &Value, wanted: &Value) -> bool {
    let now = Zoned::now();
    let parsed = match wanted {
        Value::String(text) => Schedule::parse(text, &now).ok(),
        other => Schedule::from_json(other, &now),
    };
    match parsed {
        Some(schedule) if schedule.is_recurring() => schedule.to_json() == *present,
        Some(_) => present["kind"] == "once",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_that_differ_are_changed() {
        let weekly = Schedule::parse("0 9 * * 1", &Zoned::now())
            .unwrap()
            .to_json();
        let present = json!({"name": "week", "id": "a", "prompt": "Plan", "schedule": weekly,
            "repeat": {"times": null, "completed": 3}, "skills": ["x"], "enabled": true});
        let wanted = |value: Value| different_members(&present, value.as_object().unwrap());
        let same = json!({"name": "week", "schedule": "0 9 * * 1", "prompt": "Plan", "repeat": null,
            "skill": "x", "enabled": true});
        assert_eq!(wanted(same), Map::new());
        let other = json!({"name": "week", "schedule": "0 9 * * 2", "prompt": "Plan", "deliver": "telegram"});
        let other = wanted(other);
        assert_eq!(other.keys().collect::<Vec<_>>(), ["schedule", "deliver"]);
    }
}
