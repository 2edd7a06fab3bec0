//! When what happened in a run, as bars of one picture: text, tool calls and waiting, in a lane each.

use super::steps::{RunStep, StepKind};
use crate::{api_types::Time, console::texts::Texts};

/// The width of the picture, in units of its own.
const WIDTH: i64 = 1000;
/// What took no time is still seen.
const MIN_WIDTH: i64 = 4;
/// More would be a picture nobody reads, and a page nobody waits for.
const MAX_BARS: usize = 300;

pub(in crate::console::pages) struct Timeline {
    pub(in crate::console::pages) bars: Vec<TimelineBar>,
    /// How long all of it takes.
    pub(in crate::console::pages) seconds: String,
}

pub(in crate::console::pages) struct TimelineBar {
    pub(in crate::console::pages) class: &'static str,
    pub(in crate::console::pages) x: i64,
    pub(in crate::console::pages) y: u8,
    pub(in crate::console::pages) width: i64,
    /// What it stands for.
    pub(in crate::console::pages) title: String,
}

impl Timeline {
    /// The steps between two times. Steps without an end go on until `end`, if it goes on at all.
    pub(in crate::console::pages) fn new(
        steps: &[RunStep],
        begin: Time,
        end: Time,
        texts: &Texts,
    ) -> Self {
        let length = (end.millis() - begin.millis()).max(1);
        let place = |time: Time| {
            let passed = (time.millis() - begin.millis()).clamp(0, length);
            passed * WIDTH / length
        };
        let bars = steps.iter().rev().filter_map(|step| {
            let (class, y) = match step.kind {
                StepKind::Text | StepKind::Thought => ("bar-text", 2),
                StepKind::Tool if step.has_failed => ("bar-failed", 18),
                StepKind::Tool => ("bar-tool", 18),
                StepKind::Approval => ("bar-approval", 34),
                StepKind::Decision | StepKind::Failure | StepKind::Retry => return None,
            };
            let goes_on = matches!(step.kind, StepKind::Tool | StepKind::Approval);
            let until = step.until.unwrap_or(if goes_on { end } else { step.at });
            let x = place(step.at).min(WIDTH - MIN_WIDTH);
            let width = (place(until) - x).max(MIN_WIDTH);
            Some(TimelineBar {
                class,
                x,
                y,
                width,
                title: title_of(step, begin, texts),
            })
        });
        let mut bars: Vec<_> = bars.take(MAX_BARS).collect();
        bars.reverse();
        Self {
            bars,
            seconds: seconds(texts, length),
        }
    }
}

fn title_of(step: &RunStep, begin: Time, texts: &Texts) -> String {
    let after = seconds(texts, step.at.millis() - begin.millis());
    let took = step.took.as_deref();
    let took = took.map(|took| format!("{} s", texts.decimal(took)));
    let took = took.unwrap_or_default();
    let title: String = step.title.chars().take(80).collect();
    format!("+{after} {title} {took}").trim_end().to_owned()
}

/// Milliseconds, for people.
pub(in crate::console::pages) fn seconds(texts: &Texts, millis: i64) -> String {
    let millis = millis.max(0);
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    match minutes {
        0 => {
            let seconds = format!("{}.{:02}", rest / 1000, rest % 1000 / 10);
            format!("{} s", texts.decimal(&seconds))
        }
        1..60 => format!("{minutes} min {} s", rest / 1000),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(language: &str) -> &'static Texts {
        Texts::in_language(language).unwrap()
    }

    #[test]
    fn a_duration_is_shown_in_the_units_that_fit() {
        for (millis, shown) in [
            (-5, "0.00 s"),
            (1234, "1.23 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
        ] {
            assert_eq!(seconds(texts("en"), millis), shown);
        }
        assert_eq!(seconds(texts("de"), 1234), "1,23 s");
    }

    #[test]
    fn a_bar_lies_where_its_step_was_and_stays_in_the_picture() {
        let step = |at: i64, until: Option<i64>| RunStep {
            kind: StepKind::Tool,
            at: Time::from_millis(at),
            until: until.map(Time::from_millis),
            title: "t".to_owned(),
            text: String::new(),
            took: None,
            has_failed: false,
            call: None,
        };
        let steps = [step(0, Some(500)), step(500, None), step(9000, Some(9000))];
        let line = Timeline::new(
            &steps,
            Time::from_millis(0),
            Time::from_millis(1000),
            texts("en"),
        );
        let places: Vec<_> = line.bars.iter().map(|bar| (bar.x, bar.width)).collect();
        assert_eq!(places, [(0, 500), (500, 500), (996, 4)]);
    }
}
