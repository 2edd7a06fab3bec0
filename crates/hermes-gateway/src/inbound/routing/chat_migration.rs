//! Chats that get another id: everything that names them follows.

use std::sync::Arc;

use hermes_config::Home;
use hermes_store::cron::{CronError, CronFile, JobChanges};
use jiff::Zoned;
use serde_json::{Map, Value};

use super::chat::LiveAccount;
use crate::{
    access::migration::rename_chat, inbound::InboundCore, outbound::ChatMigration,
    platform::Account,
};

impl InboundCore {
    /// Follows chats whose id changes, wherever the platform says so.
    pub(in crate::inbound) fn follow_migrations(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.outbox
            .set_migration_handler(Arc::new(move |migration: ChatMigration| {
                let core = core.clone();
                Box::pin(async move {
                    if let Some(core) = core.upgrade() {
                        core.rewrite_chat(migration).await;
                    }
                })
            }));
    }

    /// A group has another id from now on.
    pub(in crate::inbound) async fn migrate_chat(
        &self,
        account: &LiveAccount,
        old_id: &str,
        new_id: &str,
    ) {
        let waiting = self
            .outbox
            .migrate_chat(&account.account, old_id, new_id)
            .await;
        if let Err(error) = waiting {
            tracing::error!(platform = %account.account, %error, "failed to move the messages of a chat to its new id");
        }
        let migration = ChatMigration {
            account: account.account.clone(),
            old_id: old_id.to_owned(),
            new_id: new_id.to_owned(),
        };
        self.rewrite_chat(migration).await;
    }

    /// Sessions, settings and cron jobs. Told twice, by an update and by a refused message, it does nothing more.
    async fn rewrite_chat(&self, migration: ChatMigration) {
        let ChatMigration {
            account,
            old_id,
            new_id,
        } = migration;
        tracing::info!(platform = %account, old_id, new_id, "chat id changed");
        let store = self.gateway.agent().store();
        match store
            .rewrite_chat_id(&account.label(), &old_id, &new_id)
            .await
        {
            Ok(keys) => self.routing.migrate_chat(&keys, &new_id),
            Err(error) => {
                tracing::error!(platform = %account, %error, "failed to move the sessions of a chat to its new id");
            }
        }
        let home = self.gateway.home().clone();
        let renaming = tokio::task::spawn_blocking(move || {
            rename_in_jobs(&home, &account, &old_id, &new_id)
                .inspect_err(
                    |error| tracing::error!(%error, "failed to rename a chat in cron jobs"),
                )
                .ok();
            rename_chat(&home, account.platform, &old_id, &new_id)
        });
        match renaming.await {
            Ok(Ok(changed)) if changed.is_empty() => {}
            Ok(Ok(changed)) => {
                tracing::info!(?changed, "updated the id of a chat in the settings");
                match self.gateway.load_settings() {
                    Ok(settings) => drop(self.gateway.reload(settings).await),
                    Err(error) => tracing::warn!(%error, "failed to read the configuration"),
                }
            }
            Ok(Err(error)) => tracing::error!(%error, "failed to rename a chat in the settings"),
            Err(error) => tracing::error!(%error, "renaming a chat in the settings panicked"),
        }
    }
}

/// Replaces the id of a chat in the targets of jobs, and in the chats that they were created in.
fn rename_in_jobs(home: &Home, account: &Account, old: &str, new: &str) -> Result<(), CronError> {
    let label = account.label();
    let now = Zoned::now();
    CronFile::change(home, &now, |file| {
        let changes: Vec<(String, Map<String, Value>)> = file
            .jobs
            .iter()
            .filter_map(|job| {
                let renamed = renamed_members(job.as_json(), &label, old, new);
                (!renamed.is_empty()).then(|| (job.id().to_owned(), renamed))
            })
            .collect();
        for (id, others) in changes {
            let changes = JobChanges {
                others,
                ..JobChanges::default()
            };
            file.update(&id, changes, &now)?;
        }
        Ok(())
    })
}

/// The members of a job that name the chat, with its new id.
fn renamed_members(
    job: &Map<String, Value>,
    label: &str,
    old: &str,
    new: &str,
) -> Map<String, Value> {
    let mut renamed = Map::new();
    if let Some(deliver) = job.get("deliver").and_then(Value::as_str) {
        let targets: Vec<String> = deliver
            .split(',')
            .map(|target| rename_target(target.trim(), label, old, new))
            .collect();
        let targets = targets.join(",");
        if targets != deliver {
            renamed.insert("deliver".into(), targets.into());
        }
    }
    if let Some(Value::Object(origin)) = job.get("origin")
        && origin.get("platform").and_then(Value::as_str) == Some(label)
        && origin.get("chat_id").and_then(Value::as_str) == Some(old)
    {
        let mut origin = origin.clone();
        origin.insert("chat_id".into(), new.into());
        renamed.insert("origin".into(), origin.into());
    }
    renamed
}

/// `telegram:-5` and `telegram:-5:7`; other targets stay.
fn rename_target(target: &str, label: &str, old: &str, new: &str) -> String {
    let rest = target
        .strip_prefix(label)
        .and_then(|rest| rest.strip_prefix(':'))
        .and_then(|rest| rest.strip_prefix(old))
        .filter(|rest| rest.is_empty() || rest.starts_with(':'));
    match rest {
        Some(rest) => format!("{label}:{new}{rest}"),
        None => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_of_jobs_follow_a_chat() {
        let job = json!({
            "deliver": "local,telegram:-5:7,telegram:-55,telegram@work:-5",
            "origin": {"platform": "telegram", "chat_id": "-5", "thread_id": null},
        });
        let renamed = renamed_members(job.as_object().unwrap(), "telegram", "-5", "-1005");
        assert_eq!(
            Value::Object(renamed),
            json!({
                "deliver": "local,telegram:-1005:7,telegram:-55,telegram@work:-5",
                "origin": {"platform": "telegram", "chat_id": "-1005", "thread_id": null},
            })
        );
        let other = json!({"deliver": "origin", "origin": {"platform": "slack", "chat_id": "-5"}});
        assert!(renamed_members(other.as_object().unwrap(), "telegram", "-5", "-1005").is_empty());
    }
}
