// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_GGUF_HPP
#define CAUSEWAY_FORMATS_GGUF_HPP

// GGUF version 3, the file format of llama.cpp, to be written: named values of a few types, the names and shapes of all
// tensors, and their values, each at a multiple of 32 bytes. What the values mean is formats/gguf_model.hpp's business.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

static_assert(std::endian::native == std::endian::little, "these files are little-endian, and are written as they are");

/// What a value of a tensor is stored as. The numbers are those of the format.
enum class gguf_type : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };

/// "f32", "f16", "q8_0" or "bf16".
CAUSEWAY_DECL [[nodiscard]] std::string_view name_of(gguf_type type) noexcept;

/// Values that share a scale in q8_0. A row of a tensor of that type is a multiple of it.
inline constexpr std::int64_t q8_0_block = 32;

/// Bytes of so many values; for q8_0 a multiple of a block.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t bytes_of(gguf_type type, std::int64_t count) noexcept;

/// Values as they are stored. f16 and bf16 are rounded to nearest even. A block of q8_0 is a scale in f16, the greatest
/// magnitude over 127, and 32 whole multiples of it in i8. errc::invalid_argument if a value for q8_0 is not finite, or
/// greater than a scale can be.
CAUSEWAY_DECL result<io::byte_vector> gguf_bytes(gguf_type type, std::span<const float> values);

/// The named values of a file, in the order in which they were added. Each name is added once.
class gguf_metadata {
 public:
  CAUSEWAY_DECL void add(std::string_view name, std::uint32_t value);
  void add(std::string_view name, std::int64_t count) { add(name, static_cast<std::uint32_t>(count)); }
  CAUSEWAY_DECL void add(std::string_view name, float value);
  CAUSEWAY_DECL void add(std::string_view name, bool value);
  CAUSEWAY_DECL void add(std::string_view name, std::string_view value);
  void add(std::string_view name, const char* value) { add(name, std::string_view{value}); }
  CAUSEWAY_DECL void add(std::string_view name, std::span<const std::int32_t> values);
  CAUSEWAY_DECL void add(std::string_view name, std::span<const std::string> values);

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// As they stand in a file.
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

 private:
  CAUSEWAY_DECL void begin(std::string_view name, std::uint32_t type);
  CAUSEWAY_DECL void begin_list(std::string_view name, std::uint32_t type, std::size_t size);

  std::string bytes_;
  std::uint64_t count_ = 0;
};

/// A tensor to be written: rows of `columns` values each, or a single row.
struct gguf_tensor {
  std::string name;
  gguf_type type = gguf_type::f32;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  bool vector = false;         ///< one dimension
  io::byte_producer values{};  ///< all bytes of it
};

/// A whole file for `Storage::write_atomic`. errc::invalid_argument for a tensor whose values are not as long as its shape
/// says.
CAUSEWAY_DECL io::byte_producer gguf(gguf_metadata metadata, std::vector<gguf_tensor> tensors);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/gguf.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_GGUF_HPP
