//! Forms as a browser sends them: the fields of a page as they are, with what a person has changed.

use super::{ConsoleBrowser, ConsolePage, decode_entities};

/// A form of a page.
#[derive(Debug, Clone)]
pub(super) struct FilledForm {
    action: String,
    fields: Vec<(String, String)>,
}

impl ConsolePage {
    /// The first form for an operation that has all these fields.
    #[track_caller]
    pub(super) fn form(&self, operation: &str, fields: &[&str]) -> FilledForm {
        let forms = self.text.split("<form ").skip(1);
        let mut forms = forms.filter_map(|rest| FilledForm::parse(rest.split("</form>").next()?));
        let wanted = format!("/do/{operation}");
        let found = forms.find(|form| {
            let has = |name: &&str| form.fields.iter().any(|(field, _)| field == name);
            form.action == wanted && fields.iter().all(has)
        });
        found.unwrap_or_else(|| panic!("no form for {operation} on {}", self.address))
    }
}

impl FilledForm {
    fn parse(text: &str) -> Option<Self> {
        let action = attribute(text.split('>').next()?, "action")?;
        let mut fields = Vec::new();
        for tag in text.split('<').skip(1) {
            let (head, content) = tag.split_once('>')?;
            let Some(name) = attribute(head, "name") else {
                continue;
            };
            let is_unticked = head.contains("type=\"checkbox\"") && !head.ends_with(" checked");
            if head.starts_with("input") && !is_unticked {
                fields.push((name, attribute(head, "value").unwrap_or_default()));
            } else if head.starts_with("textarea") {
                let content = content.strip_prefix('\n').unwrap_or(content);
                fields.push((name, decode_entities(content)));
            }
        }
        Some(Self { action, fields })
    }

    /// With another value of a field.
    #[track_caller]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        let mut fields = self.fields.iter_mut().rev();
        let field = fields.find(|(field, _)| field == name);
        let (_, place) = field.unwrap_or_else(|| panic!("no field `{name}`"));
        value.clone_into(place);
        self
    }

    /// With one more value.
    pub(super) fn and(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends it, and goes where that leads.
    pub(super) async fn submit(&self, browser: &ConsoleBrowser) -> ConsolePage {
        let fields = self.fields.iter();
        let fields = fields.filter(|(name, _)| name != "csrf");
        let fields: Vec<(&str, &str)> = fields
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        browser.submit(&self.action, &fields).await
    }
}

/// The value of an attribute; an empty one without a value.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = format!(" {name}=\"");
    // The first attribute of a form has no space before it here.
    let tag = format!(" {tag}");
    let (_, rest) = tag.split_once(&start)?;
    Some(decode_entities(rest.split_once('"')?.0))
}
