//! The list of things to do, when a call has changed it.

use serde_json::Value;

use super::style::{Attribute, Colour, ColourMode, Style};
use crate::commands::chat::rendering::truncate;

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
        let room = width.saturating_sub(4);
        paint.paint(
            style,
            &format!("  {mark} {}", truncate::first_line(content, room)),
        )
    };
    items.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
