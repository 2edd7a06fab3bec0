//! What a model has been asked.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::script::lock;

/// A request for an answer, as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// Whether the client left before the reply was complete.
    pub abandoned: bool,
}

impl ModelCall {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// All requests of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelCallLog(Arc<Mutex<Vec<ModelCall>>>);

impl ModelCallLog {
    pub(super) fn add(&self, call: ModelCall) -> ModelCallWatch {
        let mut calls = lock(&self.0);
        calls.push(call);
        ModelCallWatch {
            log: self.clone(),
            index: calls.len() - 1,
            complete: false,
        }
    }

    pub(super) fn calls(&self) -> Vec<ModelCall> {
        lock(&self.0).clone()
    }
}

/// Notices when a client leaves before its reply is complete.
#[derive(Debug)]
pub(super) struct ModelCallWatch {
    log: ModelCallLog,
    index: usize,
    complete: bool,
}

impl ModelCallWatch {
    pub(super) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for ModelCallWatch {
    fn drop(&mut self) {
        if !self.complete
            && let Some(call) = lock(&self.log.0).get_mut(self.index)
        {
            call.abandoned = true;
        }
    }
}
