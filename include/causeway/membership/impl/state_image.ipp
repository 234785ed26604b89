// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_STATE_IMAGE_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_STATE_IMAGE_IPP

#include <causeway/membership/state_image.hpp>

#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL std::uint64_t image_layout::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const std::uint64_t size : sizes) sum += size;
  return sum;
}

CAUSEWAY_DECL std::size_t image_layout::chunks() const noexcept {
  return static_cast<std::size_t>((bytes() + chunk_bytes - 1) / chunk_bytes);
}

CAUSEWAY_DECL std::uint64_t state_root(const image_layout& layout, std::uint64_t digest) noexcept {
  hasher h;
  h.add_value(std::uint64_t{layout.chunk_bytes}).add_value(std::uint64_t{layout.sizes.size()});
  return h.add_values(std::span{layout.sizes}).add_value(digest).finish();
}

CAUSEWAY_DECL std::uint64_t digest_of(std::span<const std::uint64_t> hashes) noexcept {
  return hash_bytes(std::as_bytes(hashes));
}

CAUSEWAY_DECL state_image::state_image(std::uint32_t chunk_bytes) : layout_{chunk_bytes, {}} {
  CAUSEWAY_EXPECT(chunk_bytes > 0 && chunk_bytes % 64 == 0);
}

CAUSEWAY_DECL void state_image::add(std::span<std::byte> part) {
  CAUSEWAY_EXPECT(parts_.size() < max_state_parts);
  starts_.push_back(bytes_);
  parts_.push_back(part);
  layout_.sizes.push_back(part.size());
  bytes_ += part.size();
  touch();
}

CAUSEWAY_DECL void state_image::lies_at(std::size_t part, std::span<std::byte> memory) {
  CAUSEWAY_EXPECT(part < parts_.size() && parts_[part].size() == memory.size());
  parts_[part] = memory;
}

CAUSEWAY_DECL std::size_t state_image::chunk_size(std::size_t chunk) const noexcept {
  const std::uint64_t begin = std::uint64_t{chunk} * layout_.chunk_bytes;
  return static_cast<std::size_t>(std::min<std::uint64_t>(layout_.chunk_bytes, bytes_ - begin));
}

CAUSEWAY_DECL std::uint64_t state_image::root(thread_pool* pool) const {
  (void)hashes(pool);
  return root_;
}

CAUSEWAY_DECL const std::vector<std::uint64_t>& state_image::hashes(thread_pool* pool) const {
  if (!hashed_) make_hashes(pool);
  return hashes_;
}

CAUSEWAY_DECL void state_image::read(std::size_t chunk, std::span<std::byte> out) const {
  CAUSEWAY_EXPECT(chunk < chunks() && out.size() == chunk_size(chunk));
  for_each_piece(
      chunk, [&](std::span<std::byte> piece, std::size_t at) { std::memcpy(out.data() + at, piece.data(), piece.size()); });
}

CAUSEWAY_DECL void state_image::write(std::size_t chunk, std::span<const std::byte> in) {
  CAUSEWAY_EXPECT(chunk < chunks() && in.size() == chunk_size(chunk));
  for_each_piece(
      chunk, [&](std::span<std::byte> piece, std::size_t at) { std::memcpy(piece.data(), in.data() + at, piece.size()); });
}

CAUSEWAY_DECL std::uint64_t state_image::hash_chunk(std::size_t chunk) const {
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

CAUSEWAY_DECL void state_image::make_hashes(thread_pool* pool) const {
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

CAUSEWAY_DECL staging::staging(const image_layout& layout) : layout_{layout}, chunks_(layout.chunks()) {}

CAUSEWAY_DECL void staging::put(std::size_t chunk, std::span<const std::byte> bytes) {
  CAUSEWAY_EXPECT(chunk < chunks_.size() && bytes.size() <= layout_.chunk_bytes);
  if (!chunks_[chunk]) ++count_;
  chunks_[chunk] = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::memcpy(chunks_[chunk].get(), bytes.data(), bytes.size());
}

CAUSEWAY_DECL result<void> staging::commit(state_image& image, std::uint64_t root, thread_pool* pool) {
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

CAUSEWAY_DECL result<void> check_layout(const image_layout& ours, const image_layout& theirs) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_STATE_IMAGE_IPP
