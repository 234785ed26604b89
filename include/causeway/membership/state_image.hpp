// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_STATE_IMAGE_HPP
#define CAUSEWAY_MEMBERSHIP_STATE_IMAGE_HPP

// The committed state of a peer as memory: a list of parts, seen as one row of bytes and cut into chunks of equal size. The
// hashes of the chunks and the sizes of the parts make the root, which names the state: peers whose roots are equal hold
// the same bytes. Hashes are kept until `touch()`: whoever changes the memory says so. All peers must have the same byte
// order.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Bytes of a chunk: 1,024 of them make 256 MiB, and one crosses a line of 100 Mbit/s in 21 ms.
inline constexpr std::uint32_t default_chunk_bytes = std::uint32_t{256} << 10U;
/// A state has at most this many parts.
inline constexpr std::size_t max_state_parts = 16384;

/// The sizes of a state's parts and how it is cut: equal on peers that can share a run.
struct image_layout {
  std::uint32_t chunk_bytes = default_chunk_bytes;
  std::vector<std::uint64_t> sizes;

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t bytes() const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::size_t chunks() const noexcept;

  friend bool operator==(const image_layout&, const image_layout&) = default;
};

/// The name of a state from its layout and the digest of its chunks' hashes.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t state_root(const image_layout& layout, std::uint64_t digest) noexcept;

CAUSEWAY_DECL [[nodiscard]] std::uint64_t digest_of(std::span<const std::uint64_t> hashes) noexcept;

/// Success, or errc::wrong_model with the sizes of both sides.
CAUSEWAY_DECL [[nodiscard]] result<void> check_layout(const image_layout& ours, const image_layout& theirs);

/// An archive that copies nothing: notes where the memory lies that a `serialize` member names. What it is given must stay
/// where it is, vectors too. Takes numbers, enumerations, strings, vectors of any of these, and types with `serialize`.
/// Types with padding are refused at compile time: the bytes between their members are not part of a state.
class image_collector {
 public:
  template <class... Ts>
  void operator()(Ts&... values) {
    (visit(values), ...);
  }

  template <class T>
  void view(std::span<T> values) {
    static_assert(plain<T>, "a state is made of numbers, enumerations and structures of them without padding");
    parts_.push_back(std::as_writable_bytes(values));
  }

  /// What is no part of the state, since every peer has its own, but is to be kept with it on this peer's disk.
  template <class... Ts>
  void own(Ts&&... values) {
    parts_.swap(own_);
    (visit(values), ...);
    parts_.swap(own_);
  }

  [[nodiscard]] const std::vector<std::span<std::byte>>& parts() const noexcept { return parts_; }
  [[nodiscard]] const std::vector<std::span<std::byte>>& own_parts() const noexcept { return own_; }

 private:
  template <class T>
  static constexpr bool plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                                (std::is_floating_point_v<T> || std::has_unique_object_representations_v<T>);

  template <class T>
  void visit(T& value) {
    if constexpr (requires { value.serialize(*this); }) {
      value.serialize(*this);
    } else {
      view(std::span{&value, 1});
    }
  }

  template <class T, class Memory>
  void visit(std::vector<T, Memory>& values) {
    if constexpr (plain<T>) {
      view(std::span{values});
    } else {
      for (T& value : values) visit(value);
    }
  }

  template <class T>
  void visit(std::span<T> values) {
    view(values);
  }

  void visit(std::string& text) { view(std::span{text.data(), text.size()}); }

  std::vector<std::span<std::byte>> parts_;
  std::vector<std::span<std::byte>> own_;
};

/// Not safe to share between threads while hashes are being made: `root` makes them, afterwards everything marked const
/// only reads. Cost of hashing: one pass over the memory, on all threads of the pool.
class state_image {
 public:
  CAUSEWAY_DECL explicit state_image(std::uint32_t chunk_bytes = default_chunk_bytes);

  /// The memory of these objects, in this order.
  template <class... Ts>
  [[nodiscard]] static state_image of(Ts&... values) {
    image_collector all;
    all(values...);
    state_image image;
    for (const auto part : all.parts()) image.add(part);
    return image;
  }

  /// Appends a part; it must stay where it is.
  CAUSEWAY_DECL void add(std::span<std::byte> part);

  [[nodiscard]] const image_layout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::span<const std::span<std::byte>> parts() const noexcept { return parts_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t chunks() const noexcept { return layout_.chunks(); }
  /// The last chunk may be shorter.
  CAUSEWAY_DECL [[nodiscard]] std::size_t chunk_size(std::size_t chunk) const noexcept;

  /// The memory was changed: hashes will be made anew.
  void touch() noexcept { hashed_ = false; }

  /// The same bytes of a part lie there from now on; hashes stay. Precondition: as many.
  CAUSEWAY_DECL void lies_at(std::size_t part, std::span<std::byte> memory);

  /// Names the state. Makes the hashes if the memory was touched.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t root(thread_pool* pool = nullptr) const;
  CAUSEWAY_DECL [[nodiscard]] const std::vector<std::uint64_t>& hashes(thread_pool* pool = nullptr) const;
  [[nodiscard]] std::uint64_t chunk_hash(std::size_t chunk) const { return hashes()[chunk]; }

  /// Copies a chunk out. Precondition: `out` has chunk_size(chunk) bytes.
  CAUSEWAY_DECL void read(std::size_t chunk, std::span<std::byte> out) const;

  /// Puts bytes where a chunk lies; call touch() when all are there. Precondition: `in` has chunk_size(chunk) bytes.
  CAUSEWAY_DECL void write(std::size_t chunk, std::span<const std::byte> in);

 private:
  // Calls f(piece, offset in the chunk) on the pieces of parts that a chunk covers; never on an empty one.
  template <class F>
  void for_each_piece(std::size_t chunk, F&& f) const {
    std::uint64_t at = std::uint64_t{chunk} * layout_.chunk_bytes;
    const std::uint64_t begin = at;
    const std::uint64_t end = begin + chunk_size(chunk);
    auto part = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), at) - starts_.begin()) - 1;
    for (; at < end; ++part) {
      const auto inside = static_cast<std::size_t>(at - starts_[part]);
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(parts_[part].size() - inside, end - at));
      if (length > 0) f(parts_[part].subspan(inside, length), static_cast<std::size_t>(at - begin));
      at += length;
    }
  }

  // How a state is cut into parts must not show in a chunk's hash, so a chunk of several pieces is put together first.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t hash_chunk(std::size_t chunk) const;

  CAUSEWAY_DECL void make_hashes(thread_pool* pool) const;

  image_layout layout_;
  std::vector<std::span<std::byte>> parts_;
  std::vector<std::uint64_t> starts_;
  std::uint64_t bytes_ = 0;
  mutable std::vector<std::uint64_t> hashes_;
  mutable std::uint64_t root_ = 0;
  mutable bool hashed_ = false;
};

/// Chunks of another state that wait beside an image until all that differ are there. Memory: the chunks put, no more.
class staging {
 public:
  staging() = default;
  CAUSEWAY_DECL explicit staging(const image_layout& layout);

  /// Keeps a copy of a chunk whose hash was found right.
  CAUSEWAY_DECL void put(std::size_t chunk, std::span<const std::byte> bytes);

  [[nodiscard]] const image_layout& layout() const noexcept { return layout_; }
  [[nodiscard]] bool has(std::size_t chunk) const noexcept { return chunks_[chunk] != nullptr; }
  [[nodiscard]] std::size_t chunks_held() const noexcept { return count_; }

  /// Puts the chunks into `image`, frees them, and makes sure that the image is now the state named `root`.
  /// errc::diverged: it is another one, because its memory was changed since its hashes were made; nothing in it can be
  /// relied on then. Cost: a copy of the chunks put and one pass of hashing.
  CAUSEWAY_DECL result<void> commit(state_image& image, std::uint64_t root, thread_pool* pool = nullptr);

 private:
  image_layout layout_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t count_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/state_image.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_STATE_IMAGE_HPP
