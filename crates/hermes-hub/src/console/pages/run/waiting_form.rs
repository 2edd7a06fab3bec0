//! A form that an MCP server asks to be filled in, as pages show it: in place, beside other forms.

use hermes_protocol::RequestedForm;
use serde_json::Value;

use super::long_text::LongText;
use crate::console::schema_form::{FormItem, SchemaForm, show_empty};

pub(in crate::console::pages) struct WaitingForm {
    pub(in crate::console::pages) approval_id: String,
    pub(in crate::console::pages) server: String,
    /// What the server says.
    message: String,
    /// What its fields mean, for the operation that takes them.
    pub(in crate::console::pages) schema: String,
    pub(in crate::console::pages) items: Vec<FormItem>,
}

impl WaitingForm {
    pub(in crate::console::pages) fn new(approval_id: &str, form: RequestedForm) -> Self {
        let schema = Value::Object(form.schema);
        let ids = format!("field-{approval_id}");
        Self {
            approval_id: approval_id.to_owned(),
            server: form.server,
            message: form.message,
            items: show_empty(&SchemaForm::new(&schema), &ids),
            schema: schema.to_string(),
        }
    }

    pub(in crate::console::pages) fn shown_message(&self) -> LongText<'_> {
        LongText::new(&self.message)
    }
}
