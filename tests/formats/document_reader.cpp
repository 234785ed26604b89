// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/document_reader.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <string>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;
namespace formats = causeway::formats;

namespace {

using list = std::vector<std::string>;

// Documents; `pieces` counts the parts that they came in.
list documents(formats::document_reader& reader, int* pieces = nullptr) {
  list all;
  std::string document;
  for (;;) {
    const auto piece = reader.next().value();
    if (!piece) break;
    document += piece->text;
    if (pieces != nullptr) ++*pieces;
    if (!piece->ends_document) continue;
    all.push_back(document);
    document.clear();
  }
  CHECK(document.empty());
  CHECK(reader.position() == reader.size());
  return all;
}

formats::document_reader open(const data::data_files& files, std::size_t piece_bytes = 1 << 20) {
  return formats::document_reader::open(files, "text", piece_bytes).value();
}

}  // namespace

TEST_CASE("document reader: text files are documents, whatever pieces they come in", "[formats][fast]") {
  const cw::test::temporary_folder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + (i % 3 == 0 ? "\n\n  " : "\nand ");
  const data::data_files files{data::data_kind::text,
                               {folder.write("a", text), folder.write("b", ""), folder.write("c", "last\n")}};
  auto whole = open(files);
  CHECK(whole.has_several());
  CHECK(whole.size() == text.size() + 5);
  int pieces = 0;
  CHECK(documents(whole, &pieces) == list{text, "last\n"});
  CHECK(pieces == 2);
  auto cut = open(files, 50);
  pieces = 0;
  CHECK(documents(cut, &pieces) == list{text, "last\n"});
  CHECK(pieces > 15);
}

TEST_CASE("document reader: JSON lines of several files, without the empty ones", "[formats][fast]") {
  const cw::test::temporary_folder folder;
  const data::data_files files{data::data_kind::json_lines,
                               {folder.write("1.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\"}\n"),
                                folder.write("2.jsonl", "\n"), folder.write("3.jsonl", "{\"text\":\"b\"}")}};
  auto reader = open(files);
  CHECK(documents(reader) == list{"a", "b"});
}

TEST_CASE("document reader: what is wrong is said with the file and the line", "[formats][fast]") {
  const cw::test::temporary_folder folder;
  const std::string bad = folder.write("bad.txt", "one\ntwo\nthr\xFF\n");
  auto text = open({data::data_kind::text, {bad}}, 2);
  REQUIRE(text.next());
  REQUIRE(text.next());
  const auto error = text.next().error();
  CHECK(error.code == cw::errc::bad_text);
  CHECK(error.where == bad);
  CHECK(error.message.find("offset 11, line 3") != std::string::npos);
  auto lines = open({data::data_kind::json_lines, {folder.write("x.jsonl", "{\"text\":\"a\"}\n{")}});
  REQUIRE(lines.next());
  CHECK(lines.next().error().where.find("x.jsonl, line 2") != std::string::npos);
  CHECK(formats::document_reader::open({data::data_kind::text, {folder / "none"}}).error().code == cw::errc::not_found);
  CHECK(formats::document_reader::open({data::data_kind::tokens, {bad}}).error().code == cw::errc::unsupported);
}

TEST_CASE("document reader: the hash is that of what is read", "[formats][fast]") {
  const cw::test::temporary_folder folder;
  const std::string a = folder.write("a", "text"), same = folder.write("b", "text"), other = folder.write("c", "texT");
  const auto hash = [](const data::data_files& files, const char* field = "text") {
    return formats::document_reader::open(files, field).value().content_hash().value();
  };
  using enum data::data_kind;
  CHECK(hash({text, {a}}) == hash({text, {same}}));
  CHECK(hash({text, {a}}) != hash({text, {other}}));
  CHECK(hash({text, {a, other}}) != hash({text, {other, a}}));
  CHECK(hash({text, {a}}) != hash({json_lines, {a}}));
  CHECK(hash({json_lines, {a}}, "text") != hash({json_lines, {a}}, "content"));
}
