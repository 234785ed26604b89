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
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Bytes of a chunk: 1,024 of them make 256 MiB, and one crosses a line of 100 Mbit/s in 21 ms.
inline constexpr std::uint32_t default_chunk_bytes = std::uint32_t{256} << 10U;
/// A state has at most this many parts.
inline constexpr std::size_t max_state_parts = 16384;

/// The sizes of a state's parts and how it is cut: equal on peers that can share a run.
struct image_layout {
  std::uint32_t chunk_bytes = default_chunk_bytes;
  std::vector<std::uint64_t> sizes;

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t size : sizes) sum += size;
    return sum;
  }
  [[nodiscard]] std::size_t chunks() const noexcept {
    return static_cast<std::size_t>((bytes() + chunk_bytes - 1) / chunk_bytes);
  }

  friend bool operator==(const image_layout&, const image_layout&) = default;
};

/// The name of a state from its layout and the digest of its chunks' hashes.
[[nodiscard]] inline std::uint64_t state_root(const image_layout& layout, std::uint64_t digest) noexcept {
  hasher h;
  h.add_value(std::uint64_t{layout.chunk_bytes}).add_value(std::uint64_t{layout.sizes.size()});
  return h.add_values(std::span{layout.sizes}).add_value(digest).finish();
}

[[nodiscard]] inline std::uint64_t digest_of(std::span<const std::uint64_t> hashes) noexcept {
  return hash_bytes(std::as_bytes(hashes));
}

/// Success, or errc::wrong_model with the sizes of both sides.
[[nodiscard]] inline result<void> check_layout(const image_layout& ours, const image_layout& theirs);

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

  [[nodiscard]] const std::vector<std::span<std::byte>>& parts() const noexcept { return parts_; }

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

  void visit(std::string& text) { view(std::span{text.data(), text.size()}); }

  std::vector<std::span<std::byte>> parts_;
};

/// Not safe to share between threads while hashes are being made: `root` makes them, afterwards everything marked const
/// only reads. Cost of hashing: one pass over the memory, on all threads of the pool.
class state_image {
 public:
  explicit state_image(std::uint32_t chunk_bytes = default_chunk_bytes) : layout_{chunk_bytes, {}} {
    CAUSEWAY_EXPECT(chunk_bytes > 0 && chunk_bytes % 64 == 0);
  }

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
  void add(std::span<std::byte> part) {
    CAUSEWAY_EXPECT(parts_.size() < max_state_parts);
    starts_.push_back(bytes_);
    parts_.push_back(part);
    layout_.sizes.push_back(part.size());
    bytes_ += part.size();
    touch();
  }

  [[nodiscard]] const image_layout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::span<const std::span<std::byte>> parts() const noexcept { return parts_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t chunks() const noexcept { return layout_.chunks(); }
  /// The last chunk may be shorter.
  [[nodiscard]] std::size_t chunk_size(std::size_t chunk) const noexcept {
    const std::uint64_t begin = std::uint64_t{chunk} * layout_.chunk_bytes;
    return static_cast<std::size_t>(std::min<std::uint64_t>(layout_.chunk_bytes, bytes_ - begin));
  }

  /// The memory was changed: hashes will be made anew.
  void touch() noexcept { hashed_ = false; }

  /// Names the state. Makes the hashes if the memory was touched.
  [[nodiscard]] std::uint64_t root(thread_pool* pool = nullptr) const {
    (void)hashes(pool);
    return root_;
  }
  [[nodiscard]] const std::vector<std::uint64_t>& hashes(thread_pool* pool = nullptr) const {
    if (!hashed_) make_hashes(pool);
    return hashes_;
  }
  [[nodiscard]] std::uint64_t chunk_hash(std::size_t chunk) const { return hashes()[chunk]; }

  /// Copies a chunk out. Precondition: `out` has chunk_size(chunk) bytes.
  void read(std::size_t chunk, std::span<std::byte> out) const {
    CAUSEWAY_EXPECT(chunk < chunks() && out.size() == chunk_size(chunk));
    for_each_piece(chunk, [&](std::span<std::byte> piece, std::size_t at) {
      std::memcpy(out.data() + at, piece.data(), piece.size());
    });
  }

  /// Puts bytes where a chunk lies; call touch() when all are there. Precondition: `in` has chunk_size(chunk) bytes.
  void write(std::size_t chunk, std::span<const std::byte> in) {
    CAUSEWAY_EXPECT(chunk < chunks() && in.size() == chunk_size(chunk));
    for_each_piece(chunk, [&](std::span<std::byte> piece, std::size_t at) {
      std::memcpy(piece.data(), in.data() + at, piece.size());
    });
  }

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
  [[nodiscard]] std::uint64_t hash_chunk(std::size_t chunk) const {
    const std::size_t size = chunk_size(chunk);
    std::uint64_t hash = 0;
    bool whole = false;
    for_each_piece(chunk, [&](std::span<std::byte> piece, std::size_t) {
      if (piece.size() == size) {
        whole = true;
        hash = hash_bytes(piece);
      }
    });
    if (whole) return hash;
    std::vector<std::byte> gathered(size);
    read(chunk, gathered);
    return hash_bytes(gathered);
  }

  void make_hashes(thread_pool* pool) const {
    hashes_.resize(chunks());
    const auto some = [&](index_range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        hashes_[static_cast<std::size_t>(i)] = hash_chunk(static_cast<std::size_t>(i));
      }
    };
    const auto count = static_cast<std::int64_t>(hashes_.size());
    if (pool != nullptr) {
      pool->for_range(count, 1, some);
    } else {
      some({0, count});
    }
    root_ = state_root(layout_, digest_of(hashes_));
    hashed_ = true;
  }

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
  explicit staging(const image_layout& layout) : layout_{layout}, chunks_(layout.chunks()) {}

  /// Keeps a copy of a chunk whose hash was found right.
  void put(std::size_t chunk, std::span<const std::byte> bytes) {
    CAUSEWAY_EXPECT(chunk < chunks_.size() && bytes.size() <= layout_.chunk_bytes);
    if (!chunks_[chunk]) ++count_;
    chunks_[chunk] = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
    std::memcpy(chunks_[chunk].get(), bytes.data(), bytes.size());
  }

  [[nodiscard]] const image_layout& layout() const noexcept { return layout_; }
  [[nodiscard]] bool has(std::size_t chunk) const noexcept { return chunks_[chunk] != nullptr; }
  [[nodiscard]] std::size_t chunks_held() const noexcept { return count_; }

  /// Puts the chunks into `image`, frees them, and makes sure that the image is now the state named `root`.
  /// errc::diverged: it is another one, because its memory was changed since its hashes were made; nothing in it can be
  /// relied on then. Cost: a copy of the chunks put and one pass of hashing.
  result<void> commit(state_image& image, std::uint64_t root, thread_pool* pool = nullptr) {
    CAUSEWAY_EXPECT(image.layout() == layout_);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i]) image.write(i, {chunks_[i].get(), image.chunk_size(i)});
      chunks_[i].reset();
    }
    count_ = 0;
    image.touch();
    if (image.root(pool) == root) return {};
    return fail(errc::diverged, "state transfer",
                "the state in memory is not the one that was fetched: it was changed meanwhile; fetch it again");
  }

 private:
  image_layout layout_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t count_ = 0;
};

inline result<void> check_layout(const image_layout& ours, const image_layout& theirs) {
  if (ours == theirs) return {};
  const auto text = [](const image_layout& l) {
    return std::to_string(l.bytes()) + " bytes in " + std::to_string(l.sizes.size()) + " parts, chunks of " +
           std::to_string(l.chunk_bytes);
  };
  std::string message = "the shared state here is " + text(ours) + "; the run's is " + text(theirs);
  for (std::size_t i = 0; i < std::min(ours.sizes.size(), theirs.sizes.size()); ++i) {
    if (ours.sizes[i] == theirs.sizes[i]) continue;
    message += "; part " + std::to_string(i) + " has " + std::to_string(ours.sizes[i]) + " bytes here and " +
               std::to_string(theirs.sizes[i]) + " there";
    break;
  }
  return fail(errc::wrong_model, "state transfer", message + ". Use the model and policies that the run uses");
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_STATE_IMAGE_HPP
