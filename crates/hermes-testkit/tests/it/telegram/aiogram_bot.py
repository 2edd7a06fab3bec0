"""A bot on aiogram. Prints what it saw, as JSON."""

import asyncio
import json
import sys

from aiogram import Bot, Dispatcher, F
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramMigrateToChat, TelegramRetryAfter
from aiogram.types import (
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputRichMessage,
    ReactionTypeEmoji,
    ReplyParameters,
)

BASE, TOKEN, OLD_GROUP = sys.argv[1], sys.argv[2], int(sys.argv[3])
report = {"heard": []}


async def failure(coroutine):
    """The name and the text of the error that a call ends with."""
    try:
        await coroutine
    except Exception as error:  # noqa: BLE001
        return [type(error).__name__, str(error)]
    return None


async def main():
    session = AiohttpSession(api=TelegramAPIServer.from_base(BASE))
    bot = Bot(TOKEN, session=session)
    dispatcher = Dispatcher()

    @dispatcher.message(F.text == "begin")
    async def on_text(message):
        report["heard"].append([message.text, message.chat.type, message.message_thread_id is not None])
        await message.react([ReactionTypeEmoji(emoji="👀")])
        await bot.send_message_draft(message.chat.id, draft_id=5, text="", can_stop=True)
        rich = InputRichMessage(markdown="# Half\n\nof an")
        await bot.send_rich_message_draft(message.chat.id, draft_id=5, rich_message=rich, can_stop=True)

    @dispatcher.stopped_message_generation()
    async def on_stop(stopped):
        report["stopped"] = [stopped.chat.id, stopped.draft_id]
        rich = InputRichMessage(markdown="# Whole\n\nanswer\n\n```\ncode\n```")
        keyboard = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="Go", callback_data="go")]])
        sent = await bot.send_rich_message(stopped.chat.id, rich, reply_markup=keyboard)
        report["blocks"] = [block.type for block in sent.rich_message.blocks]

    @dispatcher.callback_query()
    async def on_button(query):
        await query.answer("gone")
        await query.message.edit_text("Pressed")
        voice = BufferedInputFile(b"voice", filename="a.ogg")
        sent = await bot.send_voice(query.message.chat.id, voice)
        report["voice"] = sent.voice.file_size
        file = await bot.get_file(sent.voice.file_id)
        report["downloaded"] = (await bot.download_file(file.file_path)).read().decode()
        await dispatcher.stop_polling()

    me = await bot.get_me()
    report["name"] = me.username
    await dispatcher.start_polling(bot, handle_signals=False, polling_timeout=1, close_bot_session=False)
    chat = report["stopped"][0]
    try:
        await bot.send_message(chat, "too fast")
    except TelegramRetryAfter as error:
        report["retry_after"] = error.retry_after
    try:
        await bot.send_message(OLD_GROUP, "moved?")
    except TelegramMigrateToChat as error:
        report["migrated_to"] = error.migrate_to_chat_id
    report["zero_draft"] = await failure(bot.send_message_draft(chat, draft_id=0, text="x"))
    lost = ReplyParameters(message_id=9999)
    report["lost_reply"] = await failure(bot.send_message(chat, "x", reply_parameters=lost))
    first = asyncio.create_task(bot.get_updates(timeout=10))
    await asyncio.sleep(0.3)
    await bot.get_updates(timeout=0)
    report["conflict"] = await failure(first)
    await bot.session.close()
    print(json.dumps(report))


asyncio.run(main())
