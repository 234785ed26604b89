// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TEXT_FILE_HPP
#define CAUSEWAY_EXAMPLES_TEXT_FILE_HPP

// Small texts that a run keeps on disk: settings, addresses, hashes.

#include <causeway/core/result.hpp>
#include <causeway/io/file.hpp>

#include <optional>
#include <string>

namespace app {

inline causeway::result<std::string> read_text(const std::string& path) {
  causeway::io::posix_storage storage;
  CAUSEWAY_ASSIGN(const auto bytes, storage.read(path));
  return std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Whole or not at all, whenever the process dies.
inline causeway::result<void> write_text(const std::string& path, const std::string& text) {
  causeway::io::posix_storage storage;
  return storage.write_atomic(path, causeway::io::produce(text));
}

/// The first word of a file; none if there is no such file, or nothing in it.
inline std::optional<std::string> read_word(const std::string& path) {
  const auto text = read_text(path);
  if (!text || text->empty()) return std::nullopt;
  return text->substr(0, text->find_first_of(" \n"));
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TEXT_FILE_HPP
