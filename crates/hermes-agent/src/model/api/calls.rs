//! Assembles tool calls from streamed pieces.

use hermes_config::random::random_digits;
use serde_json::{Map, Value};

use crate::message::ToolCall;

/// The calls of one reply, as far as they have arrived.
#[derive(Debug, Default)]
pub(crate) struct CallAssembler(Vec<CallPiece>);

/// A piece of a call, or the call assembled so far. Any member may be missing.
#[derive(Debug, Default)]
pub(crate) struct CallPiece {
    pub(crate) index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) extra: Map<String, Value>,
}

impl CallAssembler {
    /// Adds a piece. Returns the name of the call if it was not known before.
    pub(crate) fn add(&mut self, piece: CallPiece) -> Option<String> {
        let Some(position) = self.position(&piece) else {
            let name = piece.name.clone();
            self.0.push(piece);
            return Some(name).filter(|name| !name.is_empty());
        };
        let call = &mut self.0[position];
        if call.id.is_empty() {
            call.id = piece.id;
        }
        call.arguments.push_str(&piece.arguments);
        call.extra.extend(piece.extra);
        let is_new = call.name.is_empty() && !piece.name.is_empty();
        // Some servers repeat the name with every piece.
        if call.name != piece.name {
            call.name.push_str(&piece.name);
        }
        is_new.then(|| call.name.clone())
    }

    /// The call a piece belongs to. If a server sends the same index, or none, for every call, the ids decide.
    fn position(&self, piece: &CallPiece) -> Option<usize> {
        let position = match piece.index {
            Some(index) => self.0.iter().rposition(|call| call.index == Some(index)),
            None => self.0.len().checked_sub(1),
        }?;
        let call = &self.0[position];
        let is_another = !piece.id.is_empty()
            && !call.id.is_empty()
            && piece.id != call.id
            && !piece.name.is_empty();
        let is_whole_without_index =
            piece.index.is_none() && !piece.name.is_empty() && !call.name.is_empty();
        (!is_another && !is_whole_without_index).then_some(position)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls in order, each with an id.
    pub(crate) fn finish(mut self) -> Vec<ToolCall> {
        self.0.sort_by_key(|call| call.index);
        self.0
            .into_iter()
            .filter(|call| !(call.name.is_empty() && call.arguments.is_empty()))
            .map(|call| ToolCall {
                id: if call.id.is_empty() {
                    generate_call_id()
                } else {
                    call.id
                },
                name: call.name,
                arguments: call.arguments,
                extra: call.extra,
            })
            .collect()
    }
}

/// An id for a call that came without one. It has to differ from all others of the conversation.
fn generate_call_id() -> String {
    format!("call_{}", random_digits(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: impl Into<Option<u64>>, id: &str, name: &str, arguments: &str) -> CallPiece {
        CallPiece {
            index: index.into(),
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            extra: Map::new(),
        }
    }

    fn assembled(pieces: Vec<CallPiece>) -> Vec<(String, String, String)> {
        let mut calls = CallAssembler::default();
        for piece in pieces {
            calls.add(piece);
        }
        calls
            .finish()
            .into_iter()
            .map(|call| (call.id, call.name, call.arguments))
            .collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.into(), name.into(), arguments.into())
    }

    #[test]
    fn interleaved_pieces_find_their_call() {
        let calls = assembled(vec![
            piece(0, "a", "read", ""),
            piece(1, "b", "list", "{"),
            piece(0, "", "", "{\"p\":"),
            piece(1, "", "", "}"),
            piece(0, "", "", "1}"),
        ]);
        assert_eq!(
            calls,
            [call("a", "read", "{\"p\":1}"), call("b", "list", "{}")]
        );
    }

    #[test]
    fn arguments_may_come_before_the_name() {
        let calls = assembled(vec![
            piece(0, "", "", "{\"p\""),
            piece(0, "a", "read", ":1}"),
        ]);
        assert_eq!(calls, [call("a", "read", "{\"p\":1}")]);
    }

    #[test]
    fn calls_are_ordered_by_index() {
        let calls = assembled(vec![piece(1, "b", "y", ""), piece(0, "a", "x", "")]);
        assert_eq!(calls, [call("a", "x", ""), call("b", "y", "")]);
    }

    #[test]
    fn a_repeated_name_and_id_are_one() {
        let calls = assembled(vec![piece(0, "a", "read", "{"), piece(0, "a", "read", "}")]);
        assert_eq!(calls, [call("a", "read", "{}")]);
    }

    #[test]
    fn equal_or_missing_indexes_are_told_apart_by_id_and_name() {
        for index in [Some(0), None] {
            let calls = assembled(vec![
                piece(index, "a", "x", "{}"),
                piece(index, "b", "y", "{"),
                piece(index, "", "", "}"),
            ]);
            assert_eq!(calls, [call("a", "x", "{}"), call("b", "y", "{}")]);
        }
        let calls = assembled(vec![piece(None, "", "x", "{}"), piece(None, "", "x", "{}")]);
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn missing_ids_are_made_and_differ() {
        let calls = assembled(vec![piece(0, "", "x", ""), piece(1, "", "x", "")]);
        assert!(calls[0].0.starts_with("call_"));
        assert_ne!(calls[0].0, calls[1].0);
    }

    #[test]
    fn a_call_is_announced_once() {
        let mut calls = CallAssembler::default();
        assert_eq!(calls.add(piece(0, "a", "", "{")), None);
        assert_eq!(calls.add(piece(0, "", "read", "")), Some("read".into()));
        assert_eq!(calls.add(piece(0, "", "", "}")), None);
    }

    #[test]
    fn pieces_of_nothing_are_not_a_call() {
        assert_eq!(assembled(vec![piece(0, "a", "", "")]), []);
    }
}
