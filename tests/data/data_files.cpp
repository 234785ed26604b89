// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/data_files.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

// Paths below the folder.
std::vector<std::string> names(const cw::test::temporary_folder& folder, const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& p : paths) all.push_back(p.substr(folder.path().size() + 1));
  return all;
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("data files: a folder gives what is below it, in the order of paths, of one kind", "[data][fast]") {
  const cw::test::temporary_folder folder;
  for (const char* name : {"t/b.txt", "t/a/z.txt", "t/c.md", "t/.hidden.txt", "t/picture.png"}) folder.write(name, "x");
  for (const char* name : {"j/2.jsonl", "j/1.jsonl", "j/README.md"}) folder.write(name, "x");
  for (const char* name : {"b/x_000001.bin", "b/x_000000.bin", "b/tokenizer.bpe", "b/NOTES.rst"}) folder.write(name, "x");
  const auto text = data::find_data(folder / "t").value();
  CHECK(text.kind == data::data_kind::text);
  CHECK(names(folder, text.paths) == list{"t/a/z.txt", "t/b.txt", "t/c.md"});
  const auto lines = data::find_data(folder / "j").value();
  CHECK(lines.kind == data::data_kind::json_lines);
  CHECK(names(folder, lines.paths) == list{"j/1.jsonl", "j/2.jsonl"});  // what is said of them is not trained on
  const auto tokens = data::find_data(folder / "b").value();
  CHECK(tokens.kind == data::data_kind::tokens);
  CHECK(names(folder, tokens.paths) == list{"b/x_000000.bin", "b/x_000001.bin"});
}

TEST_CASE("data files: several paths keep their order, and a name with a comma is one path", "[data][fast]") {
  const cw::test::temporary_folder folder;
  const std::string b = folder.write("b.txt", "x"), a = folder.write("a.txt", "x"), odd = folder.write("one, two.txt", "x");
  folder.write("more/c.txt", "x");
  CHECK(names(folder, data::find_data(b + "," + a + "," + (folder / "more")).value().paths) ==
        list{"b.txt", "a.txt", "more/c.txt"});
  CHECK(names(folder, data::find_data(odd).value().paths) == list{"one, two.txt"});
  CHECK(data::find_data(folder.write("corpus", "x")).value().kind == data::data_kind::text);  // whatever its name
}

TEST_CASE("data files: what is not there, holds nothing or several kinds is refused by name", "[data][fast]") {
  const cw::test::temporary_folder folder;
  const auto error_of = [](const std::string& where) { return data::find_data(where).error(); };
  const std::string a = folder.write("a.txt", "x"), b = folder.write("b.bin", "x");
  CHECK(error_of(folder / "none").code == cw::errc::not_found);
  CHECK(error_of(a + "," + (folder / "gone")).where == (folder / "gone"));
  CHECK(error_of(",").code == cw::errc::not_found);
  std::filesystem::create_directory(folder / "empty");
  CHECK(error_of(folder / "empty").message.find("*.jsonl, *.bin") != std::string::npos);
  for (const std::string& where : {folder.path(), a + "," + b}) {
    CHECK(error_of(where).code == cw::errc::unsupported);
    CHECK(error_of(where).message.find("a.txt and ") != std::string::npos);
    CHECK(error_of(where).message.find("separated by commas") != std::string::npos);
  }
}

TEST_CASE("data files: names say what is for validation, but not of texts", "[data][fast]") {
  const auto taken = [](data::data_kind kind, list paths) {
    data::data_files files{kind, std::move(paths)};
    const list validation = data::take_validation(files);
    return std::pair{files.paths, validation};
  };
  using data::data_kind;
  CHECK(taken(data_kind::tokens, {"d/train.bin", "d/val.bin"}) == std::pair{list{"d/train.bin"}, list{"d/val.bin"}});
  CHECK(taken(data_kind::tokens, {"fineweb_train_000001.bin", "fineweb_train_000002.bin", "fineweb_val_000000.bin"}) ==
        std::pair{list{"fineweb_train_000001.bin", "fineweb_train_000002.bin"}, list{"fineweb_val_000000.bin"}});
  CHECK(taken(data_kind::json_lines, {"validation.jsonl", "a.jsonl", "x-valid-1.jsonl"}) ==
        std::pair{list{"a.jsonl"}, list{"validation.jsonl", "x-valid-1.jsonl"}});
  CHECK(taken(data_kind::tokens, {"val.bin"}) == std::pair{list{"val.bin"}, list{}});
  CHECK(taken(data_kind::tokens, {"valley.bin", "interval.bin", "val/a.bin"}).second.empty());
  CHECK(taken(data_kind::text, {"a.txt", "val.txt"}).second.empty());
}
