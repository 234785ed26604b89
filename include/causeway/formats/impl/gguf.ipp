// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_GGUF_IPP
#define CAUSEWAY_FORMATS_IMPL_GGUF_IPP

#include <causeway/formats/gguf.hpp>
#include <causeway/formats/safetensors.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// Types of named values, by the numbers of the format.
enum class gguf_value : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, text = 8, list = 9 };

inline constexpr std::uint64_t gguf_alignment = 32;  // what readers assume where a file says nothing

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

inline void put_text(std::string& to, std::string_view text) {
  put(to, static_cast<std::uint64_t>(text.size()));
  to += text;
}

constexpr std::uint64_t aligned(std::uint64_t size) noexcept {
  return (size + gguf_alignment - 1) / gguf_alignment * gguf_alignment;
}

inline std::uint64_t size_of(const gguf_tensor& t) noexcept { return bytes_of(t.type, t.rows * t.columns); }

/// All before the values, up to where they begin. Dimensions are listed from the one that runs fastest.
inline std::string head_of(const gguf_metadata& metadata, const std::vector<gguf_tensor>& tensors) {
  std::string head = "GGUF";
  put(head, std::uint32_t{3});
  put(head, static_cast<std::uint64_t>(tensors.size()));
  put(head, metadata.count());
  head += metadata.bytes();
  std::uint64_t at = 0;
  for (const gguf_tensor& t : tensors) {
    put_text(head, t.name);
    put(head, t.vector ? 1U : 2U);
    put(head, static_cast<std::uint64_t>(t.columns));
    if (!t.vector) put(head, static_cast<std::uint64_t>(t.rows));
    put(head, static_cast<std::uint32_t>(t.type));
    put(head, at);
    at += aligned(size_of(t));
  }
  head.resize(aligned(head.size()), '\0');
  return head;
}

inline result<void> write_tensor(const gguf_tensor& t, const io::byte_sink& sink) {
  const std::uint64_t size = size_of(t);
  CAUSEWAY_TRY(write_values(t.name, size, t.values, sink));
  constexpr std::array<std::byte, gguf_alignment> zeros{};
  return sink(std::span{zeros}.first(static_cast<std::size_t>(aligned(size) - size)));
}

/// One block of q8_0, 34 bytes.
inline bool pack_block(std::span<const float> values, std::byte* to) {
  float greatest = 0.0F;
  bool finite = true;
  for (const float v : values) {
    finite = finite && std::isfinite(v);
    greatest = std::max(greatest, std::fabs(v));
  }
  const float scale = greatest / 127.0F;
  const f16 stored{scale};
  if (!finite || !std::isfinite(static_cast<float>(stored))) return false;
  std::memcpy(to, &stored, sizeof stored);
  const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    to[sizeof stored + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(values[i] * inverse)));
  }
  return true;
}

inline result<io::byte_vector> pack_blocks(std::span<const float> values) {
  constexpr auto block = static_cast<std::size_t>(q8_0_block);
  CAUSEWAY_EXPECT(values.size() % block == 0);
  io::byte_vector bytes(static_cast<std::size_t>(bytes_of(gguf_type::q8_0, static_cast<std::int64_t>(values.size()))));
  for (std::size_t i = 0; i < values.size() / block; ++i) {
    if (pack_block(values.subspan(i * block, block), bytes.data() + i * (block + sizeof(f16)))) continue;
    return fail(errc::invalid_argument, "q8_0",
                "cannot hold a value that is no number or beyond 8 million; the model may have diverged. Write f32 to keep "
                "what it has");
  }
  return bytes;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL std::string_view name_of(gguf_type type) noexcept {
  switch (type) {
    case gguf_type::f16: return "f16";
    case gguf_type::bf16: return "bf16";
    case gguf_type::q8_0: return "q8_0";
    case gguf_type::f32: break;
  }
  return "f32";
}

CAUSEWAY_DECL std::uint64_t bytes_of(gguf_type type, std::int64_t count) noexcept {
  const auto values = static_cast<std::uint64_t>(count);
  if (type == gguf_type::q8_0) return values / static_cast<std::uint64_t>(q8_0_block) * (q8_0_block + sizeof(f16));
  return values * (type == gguf_type::f32 ? sizeof(float) : sizeof(f16));
}

CAUSEWAY_DECL result<io::byte_vector> gguf_bytes(gguf_type type, std::span<const float> values) {
  if (type == gguf_type::q8_0) return detail::pack_blocks(values);
  return from_floats(type == gguf_type::f16    ? element::f16
                     : type == gguf_type::bf16 ? element::bf16
                                               : element::f32,
                     values);
}

CAUSEWAY_DECL void gguf_metadata::begin(std::string_view name, std::uint32_t type) {
  detail::put_text(bytes_, name);
  detail::put(bytes_, type);
  ++count_;
}

CAUSEWAY_DECL void gguf_metadata::begin_list(std::string_view name, std::uint32_t type, std::size_t size) {
  begin(name, static_cast<std::uint32_t>(detail::gguf_value::list));
  detail::put(bytes_, type);
  detail::put(bytes_, static_cast<std::uint64_t>(size));
}

CAUSEWAY_DECL void gguf_metadata::add(std::string_view name, std::uint32_t value) {
  begin(name, static_cast<std::uint32_t>(detail::gguf_value::u32));
  detail::put(bytes_, value);
}

CAUSEWAY_DECL void gguf_metadata::add(std::string_view name, float value) {
  begin(name, static_cast<std::uint32_t>(detail::gguf_value::f32));
  detail::put(bytes_, value);
}

CAUSEWAY_DECL void gguf_metadata::add(std::string_view name, bool value) {
  begin(name, static_cast<std::uint32_t>(detail::gguf_value::boolean));
  bytes_ += value ? '\1' : '\0';
}

CAUSEWAY_DECL void gguf_metadata::add(std::string_view name, std::string_view value) {
  begin(name, static_cast<std::uint32_t>(detail::gguf_value::text));
  detail::put_text(bytes_, value);
}

CAUSEWAY_DECL void gguf_metadata::add(std::string_view name, std::span<const std::int32_t> values) {
  begin_list(name, static_cast<std::uint32_t>(detail::gguf_value::i32), values.size());
  for (const std::int32_t v : values) detail::put(bytes_, v);
}

CAUSEWAY_DECL void gguf_metadata::add(std::string_view name, std::span<const std::string> values) {
  begin_list(name, static_cast<std::uint32_t>(detail::gguf_value::text), values.size());
  for (const std::string& v : values) detail::put_text(bytes_, v);
}

CAUSEWAY_DECL io::byte_producer gguf(gguf_metadata metadata, std::vector<gguf_tensor> tensors) {
  return [about = std::move(metadata), all = std::move(tensors)](const io::byte_sink& sink) -> result<void> {
    const std::string head = detail::head_of(about, all);
    CAUSEWAY_TRY(sink(std::as_bytes(std::span{head})));
    for (const gguf_tensor& t : all) CAUSEWAY_TRY(detail::write_tensor(t, sink));
    return {};
  };
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_GGUF_IPP
