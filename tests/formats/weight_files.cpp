// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/weight_files.hpp>

#include <filesystem>
#include <string>

#include "formats/stored.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;

// A copy of the model in three files, whose index is to be changed.
struct sharded_copy {
  sharded_copy() {
    std::filesystem::copy(testing::stored("llama_sharded"), folder.path(), std::filesystem::copy_options::recursive);
    index = testing::file_bytes(path());
  }
  [[nodiscard]] std::string path() const { return folder / "model.safetensors.index.json"; }

  error refused_with(const std::string& text) const {
    folder.write("model.safetensors.index.json", text);
    const auto opened = weight_files::open(folder.path());
    REQUIRE_FALSE(opened);
    return opened.error();
  }
  [[nodiscard]] std::string index_with(const std::string& from, const std::string& to) const {
    std::string changed = index;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  }

  test::temporary_folder folder;
  std::string index;
};

}  // namespace

TEST_CASE("weight files: several files are one set of tensors", "[formats][fast]") {
  const auto whole = weight_files::open(testing::stored("llama"));
  const auto cut = weight_files::open(testing::stored("llama_sharded"));
  REQUIRE(whole);
  REQUIRE(cut);
  REQUIRE(whole->names() == cut->names());
  for (const auto name : whole->names()) {
    const tensor_entry* const t = cut->find(name);
    REQUIRE(t != nullptr);
    CHECK(cut->bytes(*t).size() == static_cast<std::size_t>(t->count()) * 4);
  }
  CHECK(whole->find("model.layers.7.mlp.up_proj.weight") == nullptr);
  CHECK(whole->content_hash() != cut->content_hash());
  CHECK(whole->content_hash() == weight_files::open(testing::stored("llama"))->content_hash());
}

TEST_CASE("weight files: an index that does not fit its files is refused", "[formats][fast]") {
  const sharded_copy copy;
  CHECK_THAT(copy.refused_with("{}").message, Contains("no weight_map"));
  CHECK(copy.refused_with("{").code == errc::corrupt);
  const std::string entry = R"("lm_head.weight": "model-00003-of-00003.safetensors")";
  for (const char* file : {"../model.safetensors", "/etc/passwd", "a\\\\b", "", "..", "a/b", "x\\u0000y"}) {
    CAPTURE(file);
    const auto refused = copy.refused_with(copy.index_with(entry, R"("lm_head.weight": ")" + std::string{file} + '"'));
    CHECK(refused.code == errc::corrupt);
  }
  CHECK_THAT(copy.refused_with(copy.index_with(entry, R"("lm_head.weight": "model-00001-of-00003.safetensors")")).message,
             Contains("where it is not"));
  CHECK_THAT(copy.refused_with(copy.index_with(entry, entry + R"(, "more": "model-00001-of-00003.safetensors")")).message,
             Contains("more is in"));
  CHECK(copy.refused_with(copy.index_with(entry, R"("lm_head.weight": "model-00009.safetensors")")).code ==
        errc::not_found);
}

TEST_CASE("weight files: a tensor in two files is refused", "[formats][fast]") {
  const sharded_copy copy;
  std::filesystem::copy(copy.folder / "model-00003-of-00003.safetensors", copy.folder / "again.safetensors");
  const std::string entry = R"("lm_head.weight": "model-00003-of-00003.safetensors")";
  CHECK_THAT(copy.refused_with(copy.index_with(entry, entry + R"(, "more": "again.safetensors")")).message,
             Contains("too"));
}

TEST_CASE("weight files: a folder without weights says what would make them", "[formats][fast]") {
  const test::temporary_folder folder;
  const auto opened = weight_files::open(folder.path());
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::not_found);
  CHECK_THAT(opened.error().message, Contains("save_pretrained"));
}

}  // namespace causeway::formats
