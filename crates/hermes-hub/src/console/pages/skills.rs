//! The skills of a tenant: which there are, what is in them, and which the Hub's library has.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{mcp_server::message_or_problem, render};
use crate::{
    Problem,
    console::{conflict::digest_for, frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/skills.html")]
#[expect(clippy::struct_excessive_bools, reason = "what may be done, each")]
struct SkillsPage {
    page: Frame,
    tenant: String,
    categories: Vec<CategoryView>,
    library: Vec<LibrarySkillView>,
    shows_library: bool,
    may_set: bool,
    may_install: bool,
    may_remove: bool,
}

#[derive(Template)]
#[template(path = "pages/skill.html")]
struct SkillPage {
    page: Frame,
    tenant: String,
    /// As the query names them.
    category: String,
    skill: String,
    files: Vec<SkillFileView>,
    /// The file that is shown.
    path: Option<String>,
    text: Option<String>,
    problem: Option<String>,
    /// What the form was made from, where the skill is one text that can be written.
    seen: Option<String>,
}

#[derive(Deserialize)]
struct SkillListing {
    categories: Vec<CategoryView>,
}

#[derive(Deserialize)]
struct CategoryView {
    name: String,
    skills: Vec<SkillView>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SkillView {
    name: String,
    description: String,
    enabled: bool,
    pinned: bool,
    version: Option<String>,
    file_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LibrarySkillView {
    name: String,
    description: String,
    version: Option<String>,
}

#[derive(Deserialize)]
struct LibraryListing {
    skills: Vec<LibrarySkillView>,
}

#[derive(Deserialize)]
struct SkillFileView {
    path: String,
    size: u64,
}

#[derive(Deserialize)]
struct SkillFileListing {
    files: Vec<SkillFileView>,
}

impl SkillView {
    /// The address of its files, as a query.
    fn address(&self, category: &str) -> String {
        let query = [("category", category), ("skill", &self.name)];
        url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(query)
            .finish()
    }
}

impl CategoryView {
    fn is_none(&self) -> bool {
        self.name == "-"
    }
}

impl SkillsPage {
    fn has(&self, name: &str) -> bool {
        let mut skills = self.categories.iter().flat_map(|found| &found.skills);
        skills.any(|skill| skill.name == name)
    }
}

impl SkillPage {
    /// A path without the directory of the skill, which all of them have.
    fn short<'p>(&self, path: &'p str) -> &'p str {
        let mark = format!("{}/", self.skill);
        match path.find(&mark) {
            Some(at) => &path[at + mark.len()..],
            None => path,
        }
    }

    fn address(&self, path: &str) -> String {
        let query = [
            ("category", self.category.as_str()),
            ("skill", &self.skill),
            ("path", path),
        ];
        url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(query)
            .finish()
    }

    /// The operation that reads the file, for the form that writes it.
    fn reader(&self) -> String {
        let path = self.path.as_deref().unwrap_or_default();
        let path: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
        format!("get_tenant_skill_file?path={path}")
    }

    fn is_shown(&self, path: &str) -> bool {
        self.path.as_deref() == Some(path)
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    if let Some(skill) = request.query("skill") {
        return show_skill(&request, skill).await;
    }
    let tenant = request.path_value("tenant_id").to_owned();
    let list: SkillListing = request
        .read("list_tenant_skills", json!({"tenant_id": tenant}))
        .await?;
    let shows_library = request.may("put_skill") && request.may("list_library_skills");
    let library = if shows_library {
        let read: LibraryListing = request
            .read("list_library_skills", json!({"limit": 500}))
            .await?;
        read.skills
    } else {
        Vec::new()
    };
    render(&SkillsPage {
        page: Frame::new(&request, request.texts.get("tabs.skills")),
        tenant,
        categories: list.categories,
        library,
        shows_library,
        may_set: request.may("set_skill_state"),
        may_install: request.may("put_skill"),
        may_remove: request.may("remove_skill"),
    })
}

/// The files of one skill, `SKILL.md` first.
async fn show_skill(request: &PageRequest, skill: &str) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id");
    let category = request.query("category").unwrap_or("-");
    let named = json!({"tenant_id": tenant, "category": category, "skill": skill});
    let list: SkillFileListing = request.read("list_tenant_skill_files", named).await?;
    let wanted = request.query("path").map(str::to_owned).or_else(|| {
        let mut files = list.files.iter();
        let head = files.find(|file| file.path.ends_with("/SKILL.md"));
        head.map(|file| file.path.clone())
    });
    let (mut text, mut problem, mut seen) = (None, None, None);
    if let Some(path) = &wanted {
        let named = json!({"tenant_id": tenant, "path": path});
        match request.read::<Value>("get_tenant_skill_file", named).await {
            Ok(file) => {
                text = file["content"].as_str().map(str::to_owned);
                // Of several files, none would be left of the others.
                let may_edit = list.files.len() == 1 && request.may("put_skill");
                seen = (may_edit && text.is_some()).then(|| digest_for("put_skill", &file));
            }
            Err(failed) => {
                message_or_problem(failed)?;
                problem = Some(request.texts.get("skills.not_text").to_owned());
            }
        }
    }
    render(&SkillPage {
        page: Frame::new(request, skill),
        tenant: tenant.to_owned(),
        category: category.to_owned(),
        skill: skill.to_owned(),
        files: list.files,
        path: wanted,
        text,
        problem,
        seen,
    })
}
