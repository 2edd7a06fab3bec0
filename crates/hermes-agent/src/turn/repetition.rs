//! Detects a model that repeats itself: the same failing call, one tool failing repeatedly, or the same call
//! with the same result while nothing else happens.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{message::ToolCall, tools::tool::ToolOutput};

/// A note is added when the same call failed this often.
const SAME_CALL_LIMIT: usize = 2;
/// A note is added when a tool failed this often in a row.
const SAME_TOOL_LIMIT: usize = 3;

#[derive(Debug, Default)]
pub(super) struct RepetitionDetector {
    failed_calls: HashMap<(String, String), usize>,
    failed_in_a_row: HashMap<String, usize>,
    succeeded: HashMap<(String, String), LastSuccess>,
    /// Counts successful calls with new results.
    progress: usize,
}

#[derive(Debug)]
struct LastSuccess {
    result: u64,
    /// The progress count at that time.
    progress: usize,
}

impl RepetitionDetector {
    /// Checks the results of calls; returns a note for each call that needs one.
    pub(super) fn check_results(
        &mut self,
        calls: &[ToolCall],
        outputs: &[ToolOutput],
    ) -> Vec<Option<String>> {
        calls
            .iter()
            .zip(outputs)
            .map(|(call, output)| {
                if output.is_error {
                    self.check_failure(call)
                } else {
                    self.check_success(call, output)
                }
            })
            .collect()
    }

    fn check_failure(&mut self, call: &ToolCall) -> Option<String> {
        let this = (call.name.clone(), call.arguments.clone());
        let same = self.failed_calls.entry(this).or_default();
        *same += 1;
        let in_a_row = self.failed_in_a_row.entry(call.name.clone()).or_default();
        *in_a_row += 1;
        if *same >= SAME_CALL_LIMIT {
            Some(format!(
                "Note: this very call has failed {same} times. Change the arguments or try another approach."
            ))
        } else if *in_a_row >= SAME_TOOL_LIMIT {
            Some(format!(
                "Note: `{}` has failed {in_a_row} times in a row. Try another approach.",
                call.name
            ))
        } else {
            None
        }
    }

    fn check_success(&mut self, call: &ToolCall, output: &ToolOutput) -> Option<String> {
        self.failed_in_a_row.remove(&call.name);
        let mut hasher = DefaultHasher::new();
        output.text.hash(&mut hasher);
        let result = hasher.finish();
        let this = (call.name.clone(), call.arguments.clone());
        let is_known = self.succeeded.get(&this);
        if let Some(before) = is_known.filter(|before| before.result == result) {
            let is_stuck = before.progress == self.progress;
            let progress = self.progress;
            self.succeeded
                .insert(this, LastSuccess { result, progress });
            return is_stuck.then(|| {
                "Note: this call has the same result as before, and nothing else has changed. Do not repeat it; go on \
                 with what you know."
                    .to_owned()
            });
        }
        self.progress += 1;
        let progress = self.progress;
        self.succeeded
            .insert(this, LastSuccess { result, progress });
        None
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
        let mut repetition = RepetitionDetector::default();
        let failed = [ToolOutput::error("no such file")];
        assert_eq!(repetition.check_results(&call("{}"), &failed), [None]);
        let notes = repetition.check_results(&call("{}"), &failed);
        assert!(notes[0].as_deref().unwrap().contains("2 times"));
    }

    #[test]
    fn a_success_ends_a_row_of_failures() {
        let mut repetition = RepetitionDetector::default();
        let failed = [ToolOutput::error("x")];
        for arguments in ["1", "2"] {
            assert_eq!(repetition.check_results(&call(arguments), &failed), [None]);
        }
        repetition.check_results(&call("3"), &[ToolOutput::text("fine")]);
        assert_eq!(repetition.check_results(&call("4"), &failed), [None]);
        assert_eq!(repetition.check_results(&call("5"), &failed), [None]);
        assert!(repetition.check_results(&call("6"), &failed)[0].is_some());
    }

    #[test]
    fn the_same_result_twice_is_not_progress_unless_something_happened_between() {
        let mut repetition = RepetitionDetector::default();
        let mut notes = |arguments: &str, result: &str| {
            let output = [ToolOutput::text(result)];
            repetition.check_results(&call(arguments), &output)[0].is_some()
        };
        assert!(!notes("a", "1"));
        assert!(notes("a", "1"));
        assert!(!notes("a", "2"), "another result is progress");
        assert!(!notes("b", "1"));
        assert!(!notes("a", "2"), "`b` came between");
        assert!(notes("b", "1"), "a circle of two");
    }
}
