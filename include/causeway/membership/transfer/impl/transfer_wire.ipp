// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_WIRE_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_WIRE_IPP

#include <causeway/membership/transfer/transfer_wire.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL bool is_transfer_message(std::span<const std::byte> message) noexcept {
  return !message.empty() && (message.front() & std::byte{0xF0}) == std::byte{0x80};
}

CAUSEWAY_DECL std::vector<std::byte> encode_transfer_head(const transfer_message& m, std::size_t content) {
  const auto has = detail::fields_of(m.kind);
  net::byte_writer out;
  out.put(static_cast<std::uint8_t>(m.kind));
  if (has.what) out.put(m.what.round).put(m.what.root);
  if (has.index) out.put(m.index);
  if (has.ticket) out.put(m.ticket);
  if (has.newest) out.put(m.newest);
  const std::size_t head = out.bytes().size();
  std::vector<std::byte> bytes;
  bytes.reserve(head + content);
  bytes.insert(bytes.end(), out.bytes().begin(), out.bytes().end());
  bytes.resize(head + content);
  return bytes;
}

CAUSEWAY_DECL std::vector<std::byte> encode(const transfer_message& m) {
  const auto content = detail::fields_of(m.kind).content ? m.content : std::span<const std::byte>{};
  auto bytes = encode_transfer_head(m, content.size());
  std::copy(content.begin(), content.end(), bytes.end() - static_cast<std::ptrdiff_t>(content.size()));
  return bytes;
}

CAUSEWAY_DECL result<transfer_message> decode_transfer(std::span<const std::byte> bytes) {
  if (!is_transfer_message(bytes) || bytes.front() > std::byte{static_cast<std::uint8_t>(transfer_kind::packed_chunk)}) {
    return fail(errc::corrupt, "state transfer", "a message of an unknown kind");
  }
  net::byte_reader in{bytes};
  transfer_message m;
  m.kind = static_cast<transfer_kind>(in.get<std::uint8_t>());
  const auto has = detail::fields_of(m.kind);
  if (has.what) {
    m.what.round = in.get<std::uint64_t>();
    m.what.root = in.get<std::uint64_t>();
  }
  if (has.index) m.index = in.get<std::uint64_t>();
  if (has.ticket) m.ticket = in.get<std::uint64_t>();
  if (has.newest) m.newest = in.get<std::uint64_t>();
  if (has.content && in.ok()) {
    m.content = bytes.last(in.remaining());
    return m;
  }
  CAUSEWAY_TRY(in.finish("a message of the state transfer"));
  return m;
}

CAUSEWAY_DECL std::vector<std::byte> encode(const manifest_head& head) {
  net::byte_writer out;
  out.put(head.digest).put(head.layout.chunk_bytes).put(static_cast<std::uint32_t>(head.layout.sizes.size()));
  for (const std::uint64_t size : head.layout.sizes) out.put(size);
  return std::move(out).take();
}

CAUSEWAY_DECL result<manifest_head> decode_manifest_head(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  manifest_head head;
  head.digest = in.get<std::uint64_t>();
  head.layout.chunk_bytes = in.get<std::uint32_t>();
  const std::size_t count = in.get<std::uint32_t>();
  if (count > max_state_parts || count > in.remaining() / 8 || head.layout.chunk_bytes == 0) in.refuse();
  if (in.ok()) head.layout.sizes.resize(count);
  for (std::uint64_t& size : head.layout.sizes) {
    size = in.get<std::uint64_t>();
    if (size >> 48U != 0) in.refuse();  // so that their sum cannot wrap
  }
  CAUSEWAY_TRY(in.finish("the head of a manifest"));
  return head;
}

CAUSEWAY_DECL std::vector<std::byte> encode_hashes(std::span<const std::uint64_t> all, std::uint64_t index) {
  const std::size_t first = static_cast<std::size_t>(index - 1) * hashes_per_piece;
  net::byte_writer out;
  for (const std::uint64_t hash : all.subspan(first, std::min(hashes_per_piece, all.size() - first))) out.put(hash);
  return std::move(out).take();
}

CAUSEWAY_DECL manifest_assembler::manifest_assembler(const image_layout& local, std::uint64_t root)
    : local_{local}, root_{root} {}

CAUSEWAY_DECL void manifest_assembler::restart() {
  hashes_.clear();
  next_ = head_ ? 1 : 0;  // the head was found right by itself
}

CAUSEWAY_DECL auto manifest_assembler::take(std::span<const std::byte> content) -> outcome {
  const outcome how = next_ == 0 ? take_head(content) : take_hashes(content);
  if (how == outcome::bad) restart();
  return how;
}

CAUSEWAY_DECL auto manifest_assembler::take_head(std::span<const std::byte> content) -> outcome {
  auto head = decode_manifest_head(content);
  if (!head || head->root() != root_) return outcome::bad;
  head_ = std::move(head).value();
  if (head_->layout != local_) return outcome::foreign;
  next_ = 1;
  hashes_.reserve(local_.chunks());
  return check();
}

CAUSEWAY_DECL auto manifest_assembler::take_hashes(std::span<const std::byte> content) -> outcome {
  const std::size_t due = std::min(hashes_per_piece, local_.chunks() - hashes_.size());
  if (content.size() != due * sizeof(std::uint64_t)) return outcome::bad;
  net::byte_reader in{content};
  for (std::size_t i = 0; i < due; ++i) hashes_.push_back(in.get<std::uint64_t>());
  ++next_;
  return check();
}

CAUSEWAY_DECL auto manifest_assembler::check() const -> outcome {
  if (!complete()) return outcome::more;
  return digest_of(hashes_) == head_->digest ? outcome::complete : outcome::bad;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_WIRE_IPP
