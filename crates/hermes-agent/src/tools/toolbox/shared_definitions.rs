//! Definitions of tools that conversations share.
//!
//! A turn has its tools described for itself, since settings, policies and servers change in between. The descriptions are
//! nearly always those of the turn before, in every conversation: so equal ones are kept once.

use std::{collections::HashMap, sync::Arc};

use hermes_config::sync::Mutex;

use crate::model::ToolDefinition;

/// Definitions that are remembered. Beyond that the memory begins anew.
const MAX_KNOWN: usize = 4096;

/// The definitions of earlier turns, by name. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedDefinitions {
    known: Arc<Mutex<HashMap<String, ToolDefinition>>>,
}

impl SharedDefinitions {
    /// The same definition, with the texts of an equal one if there is one.
    pub(super) fn share(&self, definition: ToolDefinition) -> ToolDefinition {
        let mut known = self.known.lock();
        match known.get(&definition.name) {
            Some(same) if *same == definition => return same.clone(),
            None if known.len() >= MAX_KNOWN => known.clear(),
            _ => {}
        }
        known.insert(definition.name.clone(), definition.clone());
        definition
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(name: &str, description: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.into(),
            description: description.into(),
            parameters: json!({"type": "object"}).into(),
        }
    }

    #[test]
    fn equal_definitions_are_kept_once_and_the_newest_counts() {
        let shared = SharedDefinitions::default();
        let first = shared.share(definition("look", "looks"));
        let again = shared.share(definition("look", "looks"));
        assert!(Arc::ptr_eq(&first.parameters, &again.parameters));
        assert!(Arc::ptr_eq(&first.description, &again.description));
        let changed = shared.share(definition("look", "looks twice"));
        assert_eq!(&*changed.description, "looks twice");
        let again = shared.share(definition("look", "looks twice"));
        assert!(Arc::ptr_eq(&changed.parameters, &again.parameters));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let shared = SharedDefinitions::default();
        for number in 0..MAX_KNOWN + 10 {
            shared.share(definition(&number.to_string(), ""));
        }
        assert_eq!(shared.known.lock().len(), 10);
    }
}
