// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_WEIGHT_FILES_HPP
#define CAUSEWAY_FORMATS_WEIGHT_FILES_HPP

// The tensors of a folder in Hugging Face's layout: all in model.safetensors, or in several files that
// model.safetensors.index.json lists.

#include <causeway/core/result.hpp>
#include <causeway/formats/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// Where such a folder has its settings.
CAUSEWAY_DECL [[nodiscard]] std::string config_file(const std::string& folder);

/// The text of a file. `remedy` is what to do if it is not there.
CAUSEWAY_DECL result<std::string> read_text_file(const std::string& path, const std::string& remedy);

/// All tensors of a folder, mapped into memory. Reading is safe from several threads.
class weight_files {
 public:
  /// errc::not_found if the folder has neither file; errc::corrupt if files and index do not fit each other.
  CAUSEWAY_DECL static result<weight_files> open(const std::string& folder);

  /// Null if there is none of this name.
  CAUSEWAY_DECL [[nodiscard]] const tensor_entry* find(std::string_view name) const noexcept;
  /// Of a tensor that `find` gave.
  CAUSEWAY_DECL [[nodiscard]] std::span<const std::byte> bytes(const tensor_entry& entry) const;

  /// All names, sorted.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::string_view> names() const;
  /// Of all that the files hold: equal where the files are equal. Reads them all.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t content_hash() const noexcept;

 private:
  struct place {
    std::size_t file = 0;
    std::size_t tensor = 0;
  };

  CAUSEWAY_DECL result<void> add(const std::string& path);

  std::vector<safetensors_file> files_;
  std::map<std::string, place, std::less<>> places_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/weight_files.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_WEIGHT_FILES_HPP
