//! A tool call in one line: what is called with what, how long it takes, and what came of it; the list of things to do
//! after a call that changed it.

use std::time::{Duration, Instant};

use hermes_agent::{message::ToolCall, printable::printable, tools::tool::ToolOutput};
use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr;

use super::style::{Attribute, Colour, ColourMode, Style};
use crate::commands::chat::rendering::wrap;

/// A call that is under way.
#[derive(Debug, Clone)]
pub(crate) struct RunningCall {
    pub(crate) id: String,
    name: String,
    arguments: String,
    began: Instant,
    progress: String,
}

/// The frames of the spinner of a running call.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// How long one frame is shown.
pub(crate) const SPINNER_INTERVAL: Duration = Duration::from_millis(100);
/// The longest an argument is shown.
const MAX_VALUE_LENGTH: usize = 60;
/// The most lines of a result that are shown with details.
const MAX_DETAIL_LINES: usize = 40;

impl RunningCall {
    pub(crate) fn new(call: &ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            name: wrap::first_line(&call.name, MAX_VALUE_LENGTH),
            arguments: render_arguments(&call.arguments),
            began: Instant::now(),
            progress: String::new(),
        }
    }

    /// Sets its progress.
    pub(crate) fn set_progress(&mut self, line: &str) {
        self.progress = wrap::first_line(line, 200);
    }

    /// The line while it runs, not wider than the terminal: a line that wraps could not be drawn over.
    pub(crate) fn render(&self, paint: ColourMode, width: usize) -> String {
        let spent = self.began.elapsed();
        let picture = spent.as_millis() / SPINNER_INTERVAL.as_millis();
        let picture = SPINNER[usize::try_from(picture).unwrap_or(0) % SPINNER.len()];
        let mut line = CallLine::new(paint, width);
        line.add(Style::PLAIN.coloured(Colour::Cyan), &picture.to_string());
        line.add(Style::bold(), &self.name);
        line.add(Style::faint(), &format!("{} s", spent.as_secs()));
        line.add(Style::PLAIN, &self.progress);
        line.add(Style::faint(), &self.arguments);
        line.text
    }
}

/// The line of a call that has ended.
pub(crate) fn render_ended(
    call: &ToolCall,
    output: &ToolOutput,
    took: Duration,
    paint: ColourMode,
    width: usize,
) -> String {
    let (mark, colour) = if output.is_error {
        ("✗", Colour::Red)
    } else {
        ("✓", Colour::Green)
    };
    let mut line = CallLine::new(paint, width);
    line.add(Style::PLAIN.coloured(colour), mark);
    line.add(
        Style::bold(),
        &wrap::first_line(&call.name, MAX_VALUE_LENGTH),
    );
    // Half of the room is for what came of it.
    let result = summarize_result(output);
    let available = width.saturating_sub(call.name.width() + 14);
    let shown = render_arguments(&call.arguments);
    line.add(
        Style::faint(),
        &wrap::truncate_line(
            &shown,
            (available / 2).max(available.saturating_sub(result.width())),
        ),
    );
    line.add(Style::faint(), &format_duration(took));
    let style = if output.is_error {
        Style::PLAIN.coloured(Colour::Red)
    } else {
        Style::PLAIN
    };
    line.add(style, &result);
    line.text
}

/// Arguments and result in full, as far as that can be read: for `-v`.
pub(crate) fn render_details(
    call: &ToolCall,
    output: &ToolOutput,
    paint: ColourMode,
) -> Vec<String> {
    let pretty = |text: &str| match serde_json::from_str::<Value>(text) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| text.to_owned()),
        Err(_) => text.to_owned(),
    };
    let mut lines = Vec::new();
    for text in [pretty(&call.arguments), pretty(strip_frame(&output.text))] {
        let text = printable(&text);
        let all: Vec<&str> = text.lines().collect();
        let style = Style::PLAIN.with(Attribute::Faint);
        let shown = all.iter().take(MAX_DETAIL_LINES);
        lines.extend(shown.map(|line| paint.paint(style, &format!("    {line}"))));
        if all.len() > MAX_DETAIL_LINES {
            let more = format!("    … {} lines more", all.len() - MAX_DETAIL_LINES);
            lines.push(paint.paint(style, &more));
        }
    }
    lines
}

/// `key=value` pairs.
pub(crate) fn render_arguments(text: &str) -> String {
    let Ok(Value::Object(arguments)) = serde_json::from_str::<Value>(text) else {
        return wrap::first_line(text, MAX_VALUE_LENGTH);
    };
    let pair = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => wrap::first_line(text, MAX_VALUE_LENGTH),
            Value::Array(items) => format!("[{}]", items.len()),
            Value::Object(members) => format!("{{{}}}", members.len()),
            other => other.to_string(),
        };
        let value = if value.contains(' ') {
            format!("\"{value}\"")
        } else {
            value
        };
        format!("{}={value}", wrap::first_line(key, MAX_VALUE_LENGTH))
    };
    arguments.iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// The result of a call, in a few words.
fn summarize_result(output: &ToolOutput) -> String {
    let text = strip_frame(&output.text);
    let line = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(members)) => summarize_members(&members),
        Ok(Value::String(text)) => text,
        Ok(Value::Array(items)) => format!("{} items", items.len()),
        _ => text.to_owned(),
    };
    let lines = line.trim().lines().count();
    let more = if lines > 1 {
        format!(" (+{} lines)", lines - 1)
    } else {
        String::new()
    };
    format!("{}{more}", wrap::first_line(&line, 200))
}

fn summarize_members(members: &Map<String, Value>) -> String {
    let code = members.get("exit_code").and_then(Value::as_i64);
    let prefix = match code {
        Some(code) if code != 0 => format!("exit {code}: "),
        _ => String::new(),
    };
    // Where tools put what a person wants to know, the most telling first.
    let telling = ["error", "result", "output", "content", "message", "status"];
    for key in telling {
        match members.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => return prefix + text,
            Some(Value::Object(inner)) if !inner.is_empty() => {
                return prefix + &summarize_members(inner);
            }
            _ => {}
        }
    }
    if !prefix.is_empty() {
        return prefix.trim_end_matches(": ").to_owned();
    }
    let short = |(key, value): (&String, &Value)| match value {
        Value::Array(items) => format!("{key}: {}", items.len()),
        Value::Object(members) => format!("{key}: {{{}}}", members.len()),
        Value::String(text) => format!("{key}: {}", wrap::first_line(text, 30)),
        other => format!("{key}: {other}"),
    };
    members.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// The text without the frame that marks it as untrusted for the model.
fn strip_frame(text: &str) -> &str {
    let inner = text
        .strip_prefix("<untrusted_tool_result")
        .and_then(|rest| rest.split_once('\n'))
        .and_then(|(_, rest)| rest.split_once('\n'))
        .and_then(|(_, rest)| rest.rsplit_once('\n'));
    inner.map_or(text, |(inner, _)| inner)
}

/// `3 ms`, `1.2 s`, `4 min 10 s`.
pub(crate) fn format_duration(took: Duration) -> String {
    match took.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        millis @ 1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        millis => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

/// Parts of a line with a space between them, cut where the room ends.
struct CallLine {
    paint: ColourMode,
    columns_left: usize,
    text: String,
}

impl CallLine {
    fn new(paint: ColourMode, width: usize) -> Self {
        Self {
            paint,
            columns_left: width,
            text: String::new(),
        }
    }

    fn add(&mut self, style: Style, part: &str) {
        let between = if self.text.is_empty() { "" } else { " " };
        if part.is_empty() || self.columns_left <= between.len() {
            return;
        }
        let part = wrap::truncate_line(part, self.columns_left - between.len());
        self.columns_left -= between.len() + part.width();
        self.text.push_str(between);
        self.text.push_str(&self.paint.paint(style, &part));
    }
}

/// The lines that show the list in a result of the `todo` tool; none if there is no list in it.
pub(crate) fn render_todo(result: &str, paint: ColourMode, width: usize) -> Vec<String> {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let items = result["todos"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |item: &Value| {
        let (mark, style) = match item["status"].as_str().unwrap_or_default() {
            "completed" => ("☑", Style::faint()),
            "cancelled" => ("☒", Style::faint().with(Attribute::Strike)),
            "in_progress" => ("▶", Style::bold().coloured(Colour::Cyan)),
            _ => ("☐", Style::PLAIN),
        };
        let content = item["content"].as_str().unwrap_or_default();
        let available = width.saturating_sub(4);
        paint.paint(
            style,
            &format!("  {mark} {}", wrap::first_line(content, available)),
        )
    };
    items.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: &Value) -> ToolCall {
        ToolCall::new("1", "mcp_files_read", arguments.to_string())
    }

    fn line(arguments: &Value, output: &ToolOutput, width: usize) -> String {
        let took = Duration::from_millis(1234);
        render_ended(&call(arguments), output, took, ColourMode::Plain, width)
    }

    #[test]
    fn a_call_is_one_line() {
        let output = ToolOutput::text("{\"result\": \"first\\nsecond\\nthird\"}");
        assert_eq!(
            line(
                &json!({"path": "/tmp/a", "limit": 3, "tags": ["x"]}),
                &output,
                100
            ),
            "✓ mcp_files_read path=/tmp/a limit=3 tags=[1] 1.2 s first (+2 lines)"
        );
        let output = ToolOutput::error("no such file");
        assert_eq!(
            line(&json!({"path": "a b"}), &output, 100),
            "✗ mcp_files_read path=\"a b\" 1.2 s no such file"
        );
    }

    #[test]
    fn a_line_is_cut_and_carries_no_control_characters() {
        let output = ToolOutput::text("\x1b[2Jwiped\x07 out");
        let line = line(&json!({"text": "x\x1b[31m".repeat(50)}), &output, 60);
        assert!(line.width() <= 60, "{line}");
        assert!(
            !line.contains('\x1b') && line.ends_with("wiped out"),
            "{line}"
        );
    }

    #[test]
    fn results_are_told_by_what_matters_in_them() {
        for (text, expected) in [
            (json!({"output": "ok\n", "exit_code": 0}), "ok"),
            (json!({"output": "boom", "exit_code": 2}), "exit 2: boom"),
            (json!({"output": "", "exit_code": 1}), "exit 1"),
            (json!({"result": {"content": "inner"}}), "inner"),
            (
                json!({"matches": [1, 2], "total": 2}),
                "matches: 2, total: 2",
            ),
            (json!([1, 2, 3]), "3 items"),
            (json!("text"), "text"),
        ] {
            assert_eq!(
                summarize_result(&ToolOutput::text(text.to_string())),
                expected,
                "{text}"
            );
        }
        let wrapped = hermes_agent::tools::toolbox::wrap_untrusted(
            "s",
            json!({"result": "it is sunny today, and warm"}).to_string(),
        );
        assert!(wrapped.starts_with('<'));
        assert_eq!(
            summarize_result(&ToolOutput::text(wrapped)),
            "it is sunny today, and warm"
        );
    }

    #[test]
    fn details_are_indented_and_limited() {
        let output = ToolOutput::text("line\n".repeat(100));
        let lines = render_details(&call(&json!({"a": 1})), &output, ColourMode::Plain);
        assert_eq!(lines[1], "      \"a\": 1");
        assert_eq!(lines.last().unwrap(), "    … 60 lines more");
    }

    #[test]
    fn a_running_call_shows_its_progress() {
        let mut running = RunningCall::new(&call(&json!({"n": 1})));
        running.set_progress("half\x1b[2J way");
        let line = running.render(ColourMode::Plain, 80);
        assert!(line.ends_with("mcp_files_read 0 s half way n=1"), "{line}");
        assert!(running.render(ColourMode::Plain, 10).width() <= 10);
    }

    #[test]
    fn durations_are_short() {
        for (millis, text) in [
            (7, "7 ms"),
            (999, "999 ms"),
            (1250, "1.2 s"),
            (250_000, "4 min 10 s"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn each_item_is_a_line_with_its_state() {
        let result = r#"{"todos": [
            {"id": "1", "content": "read", "status": "completed"},
            {"id": "2", "content": "write\u001b[2J", "status": "in_progress"},
            {"id": "3", "content": "test", "status": "pending"},
            {"id": "4", "content": "ship", "status": "cancelled"}
        ], "summary": {}}"#;
        assert_eq!(
            render_todo(result, ColourMode::Plain, 80),
            ["  ☑ read", "  ▶ write", "  ☐ test", "  ☒ ship"]
        );
        assert!(render_todo("{\"error\": \"no\"}", ColourMode::Plain, 80).is_empty());
    }
}
