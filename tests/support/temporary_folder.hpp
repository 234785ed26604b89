// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TEMPORARY_FOLDER_HPP
#define CAUSEWAY_TESTS_SUPPORT_TEMPORARY_FOLDER_HPP

// A new empty folder for one test, removed at its end.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace causeway::test {

class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "causeway-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + '/' + std::string{name}; }

  /// Writes a file below the folder, making folders as needed; gives its path.
  std::string write(std::string_view name, std::string_view content) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path{path}.parent_path());
    std::filesystem::remove(path);  // what is written over an old file goes to the disk at once, on ext4
    std::ofstream{path, std::ios::binary} << content;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_SUPPORT_TEMPORARY_FOLDER_HPP
