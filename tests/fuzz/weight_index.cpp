// SPDX-License-Identifier: Apache-2.0
// Lists of weight files from strangers: refused with a message, and no file is looked for outside of the folder.

#include <causeway/formats/weight_files.hpp>

#include "../support/temporary_folder.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const causeway::test::temporary_folder here;  // holds the list and none of the files that it names
  here.write("model.safetensors.index.json", {reinterpret_cast<const char*>(data), size});
  const auto opened = causeway::formats::weight_files::open(here.path());
  if (opened || opened.error().message.empty()) std::abort();
  const std::string& where = opened.error().where;
  if (!where.starts_with(here / "") || std::filesystem::path{where}.parent_path() != here.path()) std::abort();
  return 0;
}
