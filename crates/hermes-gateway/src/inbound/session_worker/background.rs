//! Work in the background of a chat: turns of `/background`, and commands that the agent left running. People see it in
//! `/status` and end it by name.

use std::{collections::HashMap, sync::Arc};

use hermes_agent::conversation::BackgroundCommands;
use hermes_config::sync::Mutex;
use hermes_store::SessionKey;

use super::turn_handle::TurnHandle;
use crate::chat_commands::BackgroundLine;
use crate::inbound::InboundCore;

/// The turns in the background, by the chat in which they were begun.
#[derive(Default)]
pub(in crate::inbound) struct BackgroundTurns(Mutex<HashMap<SessionKey, Vec<BackgroundTurn>>>);

struct BackgroundTurn {
    line: BackgroundLine,
    handle: Arc<TurnHandle>,
}

impl BackgroundTurns {
    /// Adds a turn. Returns its name, which no other one of the chat has.
    fn add(&self, key: &SessionKey, text: &str, handle: Arc<TurnHandle>) -> String {
        let mut chats = self.0.lock();
        let turns = chats.entry(key.clone()).or_default();
        let mut number = 1;
        let mut name = "bg1".to_owned();
        while turns.iter().any(|turn| turn.line.name == name) {
            number += 1;
            name = format!("bg{number}");
        }
        let line = BackgroundLine {
            name: name.clone(),
            subject: text.to_owned(),
        };
        turns.push(BackgroundTurn { line, handle });
        name
    }

    fn remove(&self, key: &SessionKey, name: &str) {
        let mut chats = self.0.lock();
        if let Some(turns) = chats.get_mut(key) {
            turns.retain(|turn| turn.line.name != name);
            if turns.is_empty() {
                chats.remove(key);
            }
        }
    }

    fn of_chat(&self, key: &SessionKey) -> Vec<(BackgroundLine, Arc<TurnHandle>)> {
        let chats = self.0.lock();
        let turns = chats.get(key).into_iter().flatten();
        turns
            .map(|turn| (turn.line.clone(), turn.handle.clone()))
            .collect()
    }
}

impl InboundCore {
    /// Keeps a turn in the list until it has ended. Returns its name.
    pub(in crate::inbound) fn follow_background_turn(
        self: &Arc<Self>,
        key: &SessionKey,
        text: &str,
        handle: Arc<TurnHandle>,
        turn: impl Future<Output = ()> + Send + 'static,
    ) -> String {
        let name = self.background.add(key, text, handle);
        let (core, key, own) = (self.clone(), key.clone(), name.clone());
        self.tasks.spawn(async move {
            turn.await;
            core.background.remove(&key, &own);
        });
        name
    }

    /// What goes on in the background of a chat.
    pub(in crate::inbound) fn background_work(&self, key: &SessionKey) -> Vec<BackgroundLine> {
        let turns = self.background.of_chat(key).into_iter();
        let commands = self.background_commands(key).running().into_iter();
        let commands = commands.map(|command| BackgroundLine {
            name: command.id,
            subject: command.command,
        });
        turns.map(|(line, _)| line).chain(commands).collect()
    }

    /// Ends what goes on in the background of a chat: one thing by its name, or all of it. Returns what was ended.
    pub(in crate::inbound) async fn stop_background(
        &self,
        key: &SessionKey,
        name: Option<&str>,
    ) -> Vec<BackgroundLine> {
        let is_meant = |line: &BackgroundLine| name.is_none_or(|name| line.name == name);
        let mut stopped = Vec::new();
        for (line, handle) in self.background.of_chat(key) {
            if is_meant(&line) {
                handle.stop(self.gateway.runs());
                stopped.push(line);
            }
        }
        let commands = self.background_commands(key);
        for command in commands.running() {
            let line = BackgroundLine {
                name: command.id,
                subject: command.command,
            };
            if is_meant(&line) && commands.end(&line.name).await {
                stopped.push(line);
            }
        }
        stopped
    }

    fn background_commands(&self, key: &SessionKey) -> BackgroundCommands {
        let entry = self.routing.entry(key);
        entry.map_or_else(Default::default, |entry| {
            self.gateway.runs().background_commands(&entry.session_id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_again_when_they_are_free() {
        let turns = BackgroundTurns::default();
        let key = SessionKey::new("agent:main:telegram:dm:1");
        let add = |text: &str| turns.add(&key, text, Arc::default());
        assert_eq!([add("one"), add("two")], ["bg1", "bg2"]);
        turns.remove(&key, "bg1");
        assert_eq!(add("three"), "bg1");
        let names: Vec<String> = turns
            .of_chat(&key)
            .into_iter()
            .map(|(line, _)| line.name)
            .collect();
        assert_eq!(names, ["bg2", "bg1"]);
        turns.remove(&key, "bg1");
        turns.remove(&key, "bg2");
        assert!(turns.0.lock().is_empty());
    }
}
