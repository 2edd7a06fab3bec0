//! Notices a model that runs in circles: the same failing call, or one tool failing again and again.

use std::collections::HashMap;

use crate::{message::ToolCall, tool::ToolOutput};

/// A call that failed this often with the same arguments is pointed out.
const SAME_CALL: usize = 2;
/// A tool that failed this often in a row is pointed out.
const SAME_TOOL: usize = 3;

/// What has failed in this turn.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    failed_calls: Vec<(String, String)>,
    failed_in_a_row: HashMap<String, usize>,
    is_stuck: bool,
}

impl Repetition {
    /// Looks at the results of one message; a note for each call that needs one.
    pub(super) fn look_at(
        &mut self,
        calls: &[ToolCall],
        outputs: &[ToolOutput],
    ) -> Vec<Option<String>> {
        calls
            .iter()
            .zip(outputs)
            .map(|(call, output)| self.look_at_one(call, output))
            .collect()
    }

    /// Whether anything was pointed out in the last message.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    fn look_at_one(&mut self, call: &ToolCall, output: &ToolOutput) -> Option<String> {
        self.is_stuck = false;
        if !output.is_error {
            self.failed_in_a_row.remove(&call.name);
            return None;
        }
        let this = (call.name.clone(), call.arguments.clone());
        self.failed_calls.push(this.clone());
        let same = self
            .failed_calls
            .iter()
            .filter(|failed| **failed == this)
            .count();
        let in_a_row = self.failed_in_a_row.entry(call.name.clone()).or_default();
        *in_a_row += 1;
        let in_a_row = *in_a_row;
        let note = if same >= SAME_CALL {
            format!(
                "Note: this very call has failed {same} times. Change the arguments or take another way."
            )
        } else if in_a_row >= SAME_TOOL {
            format!(
                "Note: `{}` has failed {in_a_row} times in a row. Consider another way.",
                call.name
            )
        } else {
            return None;
        };
        self.is_stuck = true;
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> Vec<ToolCall> {
        vec![ToolCall::new("1", "read_file", arguments)]
    }

    #[test]
    fn the_same_failing_call_is_pointed_out_the_second_time() {
        let mut repetition = Repetition::default();
        let failed = [ToolOutput::error("no such file")];
        assert_eq!(repetition.look_at(&call("{}"), &failed), [None]);
        assert!(
            repetition.look_at(&call("{}"), &failed)[0]
                .as_deref()
                .unwrap()
                .contains("2 times")
        );
        assert!(repetition.is_stuck());
    }

    #[test]
    fn a_success_ends_a_row_of_failures() {
        let mut repetition = Repetition::default();
        let failed = [ToolOutput::error("x")];
        for arguments in ["1", "2"] {
            assert_eq!(repetition.look_at(&call(arguments), &failed), [None]);
        }
        repetition.look_at(&call("3"), &[ToolOutput::text("fine")]);
        assert_eq!(repetition.look_at(&call("4"), &failed), [None]);
        assert_eq!(repetition.look_at(&call("5"), &failed), [None]);
        assert!(repetition.look_at(&call("6"), &failed)[0].is_some());
    }
}
