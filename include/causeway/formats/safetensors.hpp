// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_SAFETENSORS_HPP
#define CAUSEWAY_FORMATS_SAFETENSORS_HPP

// Safetensors, the file format of Hugging Face: eight bytes with the length of a header, the header in JSON, and the values
// of all tensors without a gap. A reader trusts nothing: whatever the reference implementation refuses is refused, and no
// length is believed before it fits the file. A writer writes the bytes that the reference writes.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/formats/json.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

static_assert(std::endian::native == std::endian::little,
              "values in these files are little-endian, and are read as they are");

/// What an element can be, in the reference's order: tensors of a later one come first in a file.
enum class element : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

/// "F32", as it stands in a header.
CAUSEWAY_DECL [[nodiscard]] std::string_view name_of(element e) noexcept;
/// Bytes of one.
CAUSEWAY_DECL [[nodiscard]] std::size_t size_of(element e) noexcept;

/// A tensor of a file. Rows follow each other without a gap; a shape without sizes is a single number.
struct tensor_entry {
  std::string name;
  element type = element::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< first byte, from the start of the file
  std::uint64_t end = 0;

  [[nodiscard]] std::int64_t count() const noexcept { return static_cast<std::int64_t>((end - begin) / size_of(type)); }
};

/// What a file says about its tensors, which are in the order of their bytes.
struct safetensors_header {
  std::vector<tensor_entry> tensors;
  std::map<std::string, std::string> metadata;
};

/// The longest header that the reference accepts.
inline constexpr std::size_t longest_header = 100'000'000;

/// Reads the header at the start of a whole file. Errors name what is wrong: errc::corrupt, errc::too_large.
CAUSEWAY_DECL result<safetensors_header> read_safetensors(std::span<const std::byte> file, const std::string& where);

/// A file mapped into memory: what is not touched is not read. As with every mapping, nobody may shorten it meanwhile.
class safetensors_file {
 public:
  CAUSEWAY_DECL static result<safetensors_file> open(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::span<const tensor_entry> tensors() const noexcept { return header_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }
  [[nodiscard]] std::span<const std::byte> content() const noexcept { return file_.bytes(); }

  /// `entry` must be one of `tensors()`.
  [[nodiscard]] std::span<const std::byte> bytes(const tensor_entry& entry) const noexcept {
    return file_.bytes().subspan(entry.begin, entry.end - entry.begin);
  }

 private:
  io::mapped_file file_;
  std::string path_;
  safetensors_header header_;
};

/// Elements [first, first + out.size()) of a tensor's `bytes`, as f32. F64 is rounded, F16 and BF16 are exact;
/// errc::unsupported for other types.
CAUSEWAY_DECL result<void> to_floats(element type, std::span<const std::byte> bytes, std::size_t first,
                                     std::span<float> out);

/// A tensor to be written.
struct tensor_source {
  std::string name;
  element type = element::f32;
  std::vector<std::int64_t> shape;
  io::byte_producer values;  ///< all bytes of it
};

namespace detail {

/// All that `values` produces to `sink`. errc::invalid_argument if that is not as long as `bytes`, which its shape says.
CAUSEWAY_DECL result<void> write_values(const std::string& name, std::uint64_t bytes, const io::byte_producer& values,
                                        const io::byte_sink& sink);

}  // namespace detail

/// The bytes of values in `type`: f32, f16 or bf16, which are rounded to nearest even.
CAUSEWAY_DECL [[nodiscard]] result<io::byte_vector> from_floats(element type, std::span<const float> values);

/// A whole file for `Storage::write_atomic`: what the reference would write. Errors: errc::invalid_argument for a name that
/// is there twice, or a tensor whose values are not as long as its shape says.
CAUSEWAY_DECL io::byte_producer safetensors(std::vector<tensor_source> tensors,
                                            std::map<std::string, std::string> metadata = {});

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/safetensors.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_SAFETENSORS_HPP
