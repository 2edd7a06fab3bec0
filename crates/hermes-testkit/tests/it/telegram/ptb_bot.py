"""A bot on python-telegram-bot. Prints what it saw, as JSON."""

import asyncio
import json
import sys

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, InputMediaPhoto
from telegram.error import Conflict, RetryAfter
from telegram.ext import Application, CallbackQueryHandler, MessageHandler, filters

BASE, TOKEN, GROUP, BLOCKED = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
report = {"heard": []}


def builder(token):
    return Application.builder().token(token).base_url(f"{BASE}/bot").base_file_url(f"{BASE}/file/bot")


async def failure(coroutine):
    """The name and the text of the error that a call ends with."""
    try:
        await coroutine
    except Exception as error:  # noqa: BLE001
        return [type(error).__name__, str(error)]
    return None


async def main():
    application = builder(TOKEN).build()
    done = asyncio.Event()

    async def on_message(update, context):
        message = update.message
        report["heard"].append([message.text or message.caption, message.chat.type, message.is_topic_message or False])
        if message.document:
            file = await message.document.get_file()
            report["downloaded"] = bytes(await file.download_as_bytearray()).decode()
            return
        sent = await message.reply_text("*Working*\\.", parse_mode="MarkdownV2", do_quote=True)
        report["same_topic"] = sent.message_thread_id == message.message_thread_id
        report["replied"] = sent.reply_to_message.message_id == message.message_id
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])
        edited = await sent.edit_text("Sure?", reply_markup=keyboard)
        report["edited"] = edited.text
        report["not_modified"] = await failure(sent.edit_text("Sure?", reply_markup=keyboard))

    async def on_button(update, context):
        query = update.callback_query
        await query.answer("taken")
        report["pressed"] = [query.data, query.from_user.first_name]
        await query.edit_message_reply_markup(None)
        chat = query.message.chat
        await context.bot.send_chat_action(chat.id, "typing")
        document = await context.bot.send_document(chat.id, document=b"some bytes", filename="notes.txt", caption="Notes")
        report["uploaded"] = [document.document.file_name, document.document.file_size, document.caption]
        photos = [InputMediaPhoto(b"one", caption="Both"), InputMediaPhoto(b"two")]
        album = await context.bot.send_media_group(chat.id, photos)
        report["album"] = [len(album), len({message.media_group_id for message in album})]
        done.set()

    application.add_handler(MessageHandler(filters.ALL, on_message))
    application.add_handler(CallbackQueryHandler(on_button))
    async with application:
        report["name"] = application.bot.username
        await application.bot.set_my_commands([("stop", "Stops"), ("help", "Helps")])
        await application.start()
        await application.updater.start_polling(poll_interval=0, timeout=5)
        await asyncio.wait_for(done.wait(), 30)
        await application.updater.stop()
        bot = application.bot
        try:
            await bot.send_message(GROUP, "too fast")
        except RetryAfter as error:
            waited = error.retry_after
            report["retry_after"] = waited if isinstance(waited, int) else waited.total_seconds()
        report["unparsable"] = await failure(bot.send_message(GROUP, "a.b", parse_mode="MarkdownV2"))
        report["too_long"] = await failure(bot.send_message(GROUP, "x" * 4097))
        report["no_topic"] = await failure(bot.send_message(GROUP, "x", message_thread_id=99))
        report["blocked"] = await failure(bot.send_message(BLOCKED, "x"))
        report["conflict"] = await conflict(bot)
        await application.stop()
    report["wrong_token"] = await failure(Bot("1:wrong", base_url=f"{BASE}/bot").get_me())
    print(json.dumps(report))


async def conflict(bot):
    """A second poll ends the first."""
    first = asyncio.create_task(bot.get_updates(timeout=10))
    await asyncio.sleep(0.3)
    async with Bot(TOKEN, base_url=f"{BASE}/bot") as second:
        await second.get_updates(timeout=0)
    try:
        await first
    except Conflict as error:
        return str(error)
    return None


asyncio.run(main())
