// SPDX-License-Identifier: Apache-2.0
// Lists of weight files from strangers: refused with a message, and no file is looked for outside of the folder.

#include <causeway/formats/weight_files.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace {

namespace fs = std::filesystem;

// Holds the list and none of the files that it names.
class folder {
 public:
  folder() {
    std::string name = (fs::temp_directory_path() / "causeway-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const folder here;
  std::ofstream{here.path() / "model.safetensors.index.json", std::ios::binary}.write(reinterpret_cast<const char*>(data),
                                                                                      static_cast<std::streamsize>(size));
  const auto opened = causeway::formats::weight_files::open(here.path().string());
  if (opened || opened.error().message.empty()) std::abort();
  const std::string& where = opened.error().where;
  if (!where.starts_with(here.path().string() + "/") || fs::path{where}.parent_path() != here.path()) std::abort();
  return 0;
}
