//! Skills of the library that the members of a group get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GroupRef, find_group};
use crate::{
    GroupId, Problem, ProblemCode,
    service::call::{Call, Reply},
};

const MAX_SKILLS: usize = 100;

/// The skills of a group.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GroupSkills {
    /// Their names in the library.
    skills: Vec<String>,
}

/// The skills that a group is to have.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutGroupSkills {
    /// The group's id.
    group_id: GroupId,
    /// Names of skills in the library; none for no skills.
    skills: Vec<String>,
}

pub(crate) async fn get(call: Call, input: GroupRef) -> Result<Reply, Problem> {
    find_group(&call, &input.group_id).await?;
    let skills = call.hub.state().group_skills(&input.group_id).await?;
    Reply::json(&GroupSkills { skills })
}

pub(crate) async fn put(call: Call, input: PutGroupSkills) -> Result<Reply, Problem> {
    let PutGroupSkills {
        group_id: group,
        mut skills,
    } = input;
    find_group(&call, &group).await?;
    skills.sort_unstable();
    skills.dedup();
    if skills.len() > MAX_SKILLS {
        let message = format!("a group has at most {MAX_SKILLS} skills");
        return Err(Problem::invalid(message).with_detail("skills", "too many"));
    }
    let known = call.hub.state().library_revisions(&skills).await?;
    if let Some(name) = skills.iter().find(|name| !known.contains_key(*name)) {
        let short: String = name.chars().take(80).collect();
        let message = format!("the Hub's library has no skill `{short}`; put it there first");
        return Err(Problem::new(ProblemCode::Unprocessable, message)
            .with_reason("not_in_library")
            .with_detail("skills", "no such skill"));
    }
    let entry = call.entry.clone().with_target(group.as_str());
    call.hub
        .state()
        .set_group_skills(&group, &skills, entry)
        .await?;
    call.hub.provided_skills_changed();
    Reply::json(&GroupSkills { skills })
}
