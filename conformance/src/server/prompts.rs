//! Prompts, and the completion of their arguments.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptArgument,
        PromptMessage, Reference, ResourceContents, Role,
    },
    service::RequestContext,
};

use super::{content::PNG, fixtures::ListChanges};
use crate::server::{input_required, input_required::FormOutcome};

/// What can be completed.
const WORDS: [&str; 4] = ["paris", "park", "party", "testing"];

pub(super) fn list(changes: ListChanges) -> Vec<Prompt> {
    let prompt = |name: &str, description: &str, arguments: &[&str]| {
        let argument = |name: &&str| PromptArgument::new(*name).with_required(true);
        let arguments: Vec<_> = arguments.iter().map(argument).collect();
        let arguments = (!arguments.is_empty()).then_some(arguments);
        Prompt::new(name, Some(description), arguments)
    };
    let mut prompts = vec![
        prompt("test_simple_prompt", "One sentence", &[]),
        prompt(
            "test_prompt_with_arguments",
            "A sentence with arguments",
            &["arg1", "arg2"],
        ),
        prompt(
            "test_prompt_with_embedded_resource",
            "A resource and a sentence",
            &["resourceUri"],
        ),
        prompt("test_prompt_with_image", "A picture and a sentence", &[]),
        prompt(
            "test_input_required_result_prompt",
            "Asks the user before it is complete",
            &[],
        ),
    ];
    if changes.prompts % 2 == 1 {
        prompts.push(prompt(
            "test_passing_prompt",
            "Is there after every second change",
            &[],
        ));
    }
    prompts
}

pub(super) fn get(
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let value = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        value.ok_or_else(|| ErrorData::invalid_params(format!("`{name}` is missing"), None))
    };
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![ContentBlock::text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![ContentBlock::text(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1")?,
            argument("arg2")?
        ))],
        "test_prompt_with_embedded_resource" => {
            let text = "Embedded resource content for testing.";
            let resource = ResourceContents::text(text, argument("resourceUri")?);
            vec![
                ContentBlock::resource(resource.with_mime_type("text/plain")),
                ContentBlock::text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            ContentBlock::image(PNG, "image/png"),
            ContentBlock::text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            let answers = request.input_responses.as_ref();
            match input_required::form_field(answers, "user_context", "context")? {
                FormOutcome::Unanswered => {
                    let question = input_required::form_request(
                        "What context should the prompt use?",
                        "context",
                        "string",
                    )?;
                    let questions = vec![("user_context", question)];
                    return input_required::request_input(questions, None, context).map(Into::into);
                }
                FormOutcome::Refused => vec![ContentBlock::text("There is no context.")],
                FormOutcome::Filled(value) => {
                    vec![ContentBlock::text(format!("The context is {value}."))]
                }
            }
        }
        "test_passing_prompt" => vec![ContentBlock::text("Here for now.")],
        name => {
            let problem = format!("there is no prompt `{name}`");
            return Err(ErrorData::invalid_params(problem, None));
        }
    };
    let messages = contents
        .into_iter()
        .map(|content| PromptMessage::new(Role::User, content));
    Ok(GetPromptResult::new(messages.collect()).into())
}

pub(super) fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let typed = request.argument.value.as_str();
    let fitting = WORDS.iter().filter(|word| word.starts_with(typed));
    let values = match &request.r#ref {
        Reference::Prompt(_) => fitting.map(|word| (*word).to_owned()).collect(),
        _ => Vec::new(),
    };
    let completion =
        CompletionInfo::new(values).map_err(|problem| ErrorData::internal_error(problem, None))?;
    Ok(CompleteResult::new(completion))
}
