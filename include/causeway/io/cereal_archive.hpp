// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_CEREAL_ARCHIVE_HPP
#define CAUSEWAY_IO_CEREAL_ARCHIVE_HPP

// An archiver for checkpoints of users' own types that are written for cereal: `save_state(trainer,
// io::cereal_archiver{})`. It is the only header that includes cereal. What io/archive.hpp knows has the same bytes in
// both. For bytes that we wrote and whose checksum fits, never for bytes from a peer: cereal allocates whatever length the
// bytes claim.

#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/deque.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>

#include <cstddef>
#include <exception>
#include <istream>
#include <ostream>
#include <span>
#include <streambuf>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

namespace detail {

/// Appends to a vector.
class vector_streambuf final : public std::streambuf {
 public:
  CAUSEWAY_DECL explicit vector_streambuf(byte_vector& out);

 protected:
  CAUSEWAY_INLINE std::streamsize xsputn(const char* s, std::streamsize n) override;
  CAUSEWAY_INLINE int_type overflow(int_type c) override;

 private:
  byte_vector* out_;
};

/// Reads from memory that somebody else owns.
class span_streambuf final : public std::streambuf {
 public:
  CAUSEWAY_DECL explicit span_streambuf(std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(egptr() - gptr()); }
};

}  // namespace detail

/// Both ways, as one object. Models Archiver.
struct cereal_archiver {
  template <class T>
  result<byte_vector> to_bytes(const T& value) const {
    byte_vector out;
    try {
      detail::vector_streambuf buffer{out};
      std::ostream stream{&buffer};
      cereal::PortableBinaryOutputArchive archive{stream};
      archive(value);
    } catch (const std::exception& e) {
      return fail(errc::io_failed, "archive", std::string{"could not write an object: "} + e.what());
    }
    return out;
  }

  /// All of `bytes`: errc::corrupt if they end too early or go on afterwards; then `value` holds a mixture.
  template <class T>
  result<void> from_bytes(std::span<const std::byte> bytes, T& value) const {
    std::size_t left = 0;
    try {
      detail::span_streambuf buffer{bytes};
      std::istream stream{&buffer};
      cereal::PortableBinaryInputArchive archive{stream};
      archive(value);
      left = buffer.left();
    } catch (const std::exception& e) {
      return fail(errc::corrupt, "archive",
                  std::string{"could not read an object: "} + e.what() +
                      ". The bytes were cut, or written by another version of the program");
    }
    if (left == 0) return {};
    return fail(errc::corrupt, "archive",
                std::to_string(left) + " of " + std::to_string(bytes.size()) +
                    " bytes are left over. They were written by another version of the program");
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/cereal_archive.ipp>
#endif

#endif  // CAUSEWAY_IO_CEREAL_ARCHIVE_HPP
