// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/text.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <string>

namespace cw = causeway;
namespace data = causeway::data;

TEST_CASE("text: valid UTF-8 of every length is accepted", "[data][fast]") {
  CHECK_FALSE(data::first_invalid_utf8(""));
  CHECK_FALSE(data::first_invalid_utf8("plain\r\n\t"));
  CHECK_FALSE(data::first_invalid_utf8("¢ \u07FF \u0800 \uD7FF \uE000 \uFFFF \U00010000 \U0010FFFF"));
  CHECK_FALSE(data::first_invalid_utf8(std::string("a\0b", 3)));
}

TEST_CASE("text: the first byte that is not UTF-8 is found", "[data][fast]") {
  const auto bad_at = [](std::string_view s) { return data::first_invalid_utf8(s).value_or(9999); };
  CHECK(bad_at("ab\xFF") == 2);
  CHECK(bad_at("ab\x80") == 2);            // a continuation without a start
  CHECK(bad_at("é\xC3") == 2);             // cut at the end
  CHECK(bad_at("a\xE2\x82") == 1);         // cut at the end
  CHECK(bad_at("a\xE2\x82z") == 1);        // cut in the middle
  CHECK(bad_at("\xC0\xAF") == 0);          // overlong '/'
  CHECK(bad_at("\xC1\xBF") == 0);          // overlong
  CHECK(bad_at("\xE0\x9F\xBF") == 0);      // overlong
  CHECK(bad_at("\xF0\x8F\xBF\xBF") == 0);  // overlong
  CHECK(bad_at("\xED\xA0\x80") == 0);      // surrogate
  CHECK(bad_at("\xF4\x90\x80\x80") == 0);  // past U+10FFFF
  CHECK(bad_at("\xF5\x80\x80\x80") == 0);  // past U+10FFFF
}

TEST_CASE("text: a file is read whole, whatever its name", "[data][fast]") {
  const cw::test::temporary_folder folder;
  CHECK(data::load_text(folder.write("corpus.data", "one\ntwo\n")).value() == "one\ntwo\n");
}

TEST_CASE("text: a folder is read below, in the order of paths, text files only", "[data][fast]") {
  const cw::test::temporary_folder folder;
  folder.write("b.txt", "B");
  folder.write("a/z.md", "Z\n");
  folder.write("a/a.text", "A");
  folder.write("a.b/c.txt", "C");
  folder.write("empty.txt", "");
  folder.write("image.png", "\xFF\xD8");
  folder.write(".hidden.txt", "H");
  folder.write(".git/x.txt", "G");
  const auto documents = data::load_documents(folder.path()).value();
  std::string order;
  for (const auto& d : documents) order += d.text[0];
  CHECK(order == "CAZB");  // "a.b/" < "a/" < "b.txt", byte by byte
  CHECK(documents[0].name == folder / "a.b/c.txt");
  CHECK(data::load_text(folder.path()).value() == "C\n\nA\n\nZ\n\nB");
  CHECK(data::load_documents(folder.path(), {.extensions = {".md"}}).value().size() == 1);
  CHECK(data::load_documents(folder.path(), {.extensions = {}, .require_utf8 = false}).value().size() == 5);
}

TEST_CASE("text: a missing path and a folder without text are not_found", "[data][fast]") {
  const cw::test::temporary_folder folder;
  const auto missing = data::load_text(folder / "no");
  CHECK(missing.error().code == cw::errc::not_found);
  CHECK(missing.error().where == folder / "no");
  const auto none = data::load_text(folder.path());
  CHECK(none.error().code == cw::errc::not_found);
  CHECK(none.error().message.find("*.txt") != std::string::npos);
}

TEST_CASE("text: empty and too short are bad_text", "[data][fast]") {
  const cw::test::temporary_folder folder;
  CHECK(data::load_text(folder.write("empty", "")).error().code == cw::errc::bad_text);
  const auto tiny = data::load_text(folder.write("tiny", "abc"), {.minimum_bytes = 100});
  CHECK(tiny.error().code == cw::errc::bad_text);
  CHECK(tiny.error().message.find("3 bytes, 100 are needed") != std::string::npos);
}

TEST_CASE("text: a byte that is not UTF-8 is reported with file, offset, line and remedy", "[data][fast]") {
  const cw::test::temporary_folder folder;
  folder.write("ok.txt", "fine");
  const std::string bad = folder.write("sub/latin1.txt",
                                       "one\ntwo\nthr\xE9"
                                       "e\n");
  const auto outcome = data::load_text(folder.path());
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == cw::errc::bad_text);
  CHECK(outcome.error().where == bad);
  CHECK(outcome.error().message.find("0xe9 at offset 11, line 3") != std::string::npos);
  CHECK(outcome.error().message.find("iconv") != std::string::npos);
  CHECK(data::load_text(bad, {.require_utf8 = false}).value().size() == 14);
}

TEST_CASE("text: cuts are behind the end of a line, where no white space follows, and between words", "[data][fast]") {
  CHECK(data::where_to_cut("ab\ncd\nef", 0) == 3);
  CHECK(data::where_to_cut("ab\ncd\nef", 3) == 3);
  CHECK(data::where_to_cut("ab\ncd\nef", 4) == 6);
  CHECK(data::where_to_cut("ab\ncd\nef", 7) == 8);
  CHECK(data::where_to_cut("ab\n cd\n\tef\n\ngh\nij", 0) == 15);  // blanks at an end of a text are one piece
  CHECK(data::where_to_cut("ab\r\ncd", 1) == 6);
  CHECK(data::where_to_cut("ab\u3000\ncd", 1) == 8);
  CHECK(data::where_to_cut("日。\n日", 1) == 7);
  CHECK(data::where_to_cut("ab\n", 0) == 3);
  CHECK(data::where_to_cut("", 5) == 0);
  CHECK(data::where_to_cut("a\n\u3000b\nüc", 0) == 7);  // behind an ideographic space there is none
  CHECK(data::where_to_cut("a\n\u00A0b\n日", 0) == 6);
  CHECK(data::where_to_cut("a\n\u2003b\n12", 0) == 7);
  CHECK(data::where_to_cut("one two  three four", 0) == 3);
  CHECK(data::where_to_cut("one two  three four", 4) == 14);
  CHECK(data::where_to_cut("it's 1 2 é e", 0) == 13);
}
