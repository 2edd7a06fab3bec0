//! A form that an MCP server asks to be filled in, or a page that it asks to be opened, as pages show it: in place, beside
//! other forms.

use hermes_protocol::RequestedForm;
use serde_json::Value;
use url::Url;

use super::steps::LongText;
use crate::console::schema_form::{FormItem, SchemaForm, show_empty};

pub(in crate::console::pages) struct WaitingForm {
    pub(in crate::console::pages) approval_id: String,
    pub(in crate::console::pages) server: String,
    /// What the server says.
    message: String,
    /// What its fields mean, for the operation that takes them.
    pub(in crate::console::pages) schema: String,
    pub(in crate::console::pages) items: Vec<FormItem>,
    /// To open elsewhere; then there are no fields.
    pub(in crate::console::pages) page: Option<RequestedPage>,
}

/// A page that somebody is to open.
pub(in crate::console::pages) struct RequestedPage {
    pub(in crate::console::pages) address: String,
    /// Where a link may lead; `None` for what is not a page of the web, which is only shown.
    pub(in crate::console::pages) host: Option<String>,
}

impl RequestedPage {
    fn new(address: String) -> Self {
        let url = Url::parse(&address).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let host = url
            .as_ref()
            .and_then(|url| url.host_str().map(str::to_owned));
        Self {
            address: url.map_or(address, String::from),
            host,
        }
    }
}

impl WaitingForm {
    pub(in crate::console::pages) fn new(approval_id: &str, form: RequestedForm) -> Self {
        let schema = Value::Object(form.schema);
        let ids = format!("field-{approval_id}");
        Self {
            approval_id: approval_id.to_owned(),
            server: form.server,
            message: form.message,
            page: form.url.map(RequestedPage::new),
            items: show_empty(&SchemaForm::new(&schema), &ids),
            schema: schema.to_string(),
        }
    }

    pub(in crate::console::pages) fn shown_message(&self) -> LongText<'_> {
        LongText::new(&self.message)
    }

    /// The key of what the server wants.
    pub(in crate::console::pages) fn asked(&self) -> &'static str {
        match self.page {
            Some(_) => "form.asked_page",
            None => "form.asked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_web_are_linked() {
        let page = RequestedPage::new("HTTPS://Login.Example.com/a?b=\u{202e}c".to_owned());
        assert_eq!(page.host.as_deref(), Some("login.example.com"));
        assert_eq!(page.address, "https://login.example.com/a?b=%E2%80%AEc");
        for other in [
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "x",
        ] {
            let page = RequestedPage::new(other.to_owned());
            assert_eq!((page.host, page.address.as_str()), (None, other));
        }
    }
}
