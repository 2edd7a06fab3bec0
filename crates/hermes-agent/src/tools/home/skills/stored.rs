//! The skills of a home.

use hermes_store::skills;

use super::{SkillSummary, SkillText, Skills};

impl Skills for skills::Skills {
    fn list(&self) -> Vec<SkillSummary> {
        let skills = skills::Skills::list(self).into_iter();
        skills
            .map(|skill| SkillSummary {
                name: skill.name,
                description: skill.description,
                category: skill.category,
            })
            .collect()
    }

    fn category_description(&self, category: &str) -> Option<String> {
        skills::Skills::category_description(self, category)
    }

    fn view(&self, name: &str) -> Result<SkillText, String> {
        let view = skills::Skills::view(self, name).map_err(|error| error.to_string())?;
        Ok(SkillText {
            text: view.body,
            files: view.files,
        })
    }

    fn view_file(&self, name: &str, path: &str) -> Result<String, String> {
        skills::Skills::view_file(self, name, path).map_err(|error| error.to_string())
    }
}
