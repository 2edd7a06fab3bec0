//! Where the message of a run goes.

use futures::future::BoxFuture;
use hermes_store::cron::Job;
use serde_json::Value;

/// Delivers the messages of jobs.
pub trait Delivery: Send + Sync {
    /// Delivers a message to every target of the job. Failures are described in one text, for the user.
    fn deliver<'a>(&'a self, job: &'a Job, text: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// Delivers nothing: messages are only stored with the output of their job.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDelivery;

impl Delivery for LocalDelivery {
    fn deliver<'a>(&'a self, job: &'a Job, _text: &'a str) -> BoxFuture<'a, Result<(), String>> {
        let has_origin = job.get("origin").is_some_and(|origin| !origin.is_null());
        let away: Vec<String> = delivery_targets(job)
            .into_iter()
            // Without an origin chat, the message stays in the home.
            .filter(|target| target != "local" && (target != "origin" || has_origin))
            .map(|target| format!("`{target}`"))
            .collect();
        let result = if away.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "not delivered to {}: that needs the gateway, which did not run this job; the message is stored in the home",
                away.join(", ")
            ))
        };
        Box::pin(std::future::ready(result))
    }
}

/// The targets of a job, each once.
fn delivery_targets(job: &Job) -> Vec<String> {
    let written = job
        .get("deliver")
        .and_then(Value::as_str)
        .unwrap_or("local");
    let mut targets: Vec<String> = Vec::new();
    for target in written.split(',').map(str::trim) {
        if !target.is_empty() && !targets.iter().any(|known| known == target) {
            targets.push(target.to_owned());
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use hermes_store::cron::{CronFile, NewJob, Schedule};
    use jiff::Zoned;
    use serde_json::json;

    use super::*;

    async fn delivered(deliver: &str, origin: Option<Value>) -> Result<(), String> {
        let directory = tempfile::tempdir().unwrap();
        let now = Zoned::now();
        let new = NewJob {
            deliver: Some(deliver.into()),
            origin,
            ..NewJob::new("x", Schedule::parse("1h", &now).unwrap())
        };
        let home = Home::at(directory.path());
        let job = CronFile::change(&home, &now, |file| file.create(new, &now)).unwrap();
        LocalDelivery.deliver(&job, "text").await
    }

    #[tokio::test]
    async fn what_stays_in_the_home_is_delivered() {
        assert_eq!(delivered("local", None).await, Ok(()));
        assert_eq!(delivered("origin", None).await, Ok(()));
    }

    #[tokio::test]
    async fn what_goes_elsewhere_is_named_once() {
        let origin = Some(json!({"platform": "telegram", "chat_id": "1"}));
        let error = delivered("local, telegram,origin, telegram", origin).await;
        let error = error.unwrap_err();
        assert!(
            error.contains("to `telegram`, `origin`: that needs the gateway"),
            "{error}"
        );
    }
}
