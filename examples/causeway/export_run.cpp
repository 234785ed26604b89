// SPDX-License-Identifier: Apache-2.0
#include "export_run.hpp"

#include <causeway/formats/gguf_model.hpp>
#include <causeway/formats/huggingface.hpp>
#include <causeway/formats/tokenizer_json.hpp>
#include <causeway/io/file.hpp>

#include <cstdio>
#include <string>

#include "path_layout.hpp"
#include "run_model.hpp"

namespace app {
namespace {

namespace formats = causeway::formats;
namespace io = causeway::io;
using causeway::errc;
using causeway::fail;

// False, with a word about it, where the format cannot hold the tokenizer.
causeway::result<bool> write_tokenizer(const text_codec& codec, std::int64_t context, const std::string& folder) {
  const auto merges = codec.merges();
  const auto text = formats::tokenizer_text(merges);
  if (!text) {
    std::fprintf(stderr, "without a tokenizer: %s\n", text.error().text().c_str());
    return false;
  }
  io::posix_storage storage;
  CAUSEWAY_TRY(storage.write_atomic(folder + "/tokenizer.json", io::produce(*text)));
  const std::string config = formats::tokenizer_config_text(merges, context);
  CAUSEWAY_TRY(storage.write_atomic(folder + "/tokenizer_config.json", io::produce(config)));
  return true;
}

formats::element element_of(const std::string& type) {
  return type == "bf16" ? formats::element::bf16 : type == "f16" ? formats::element::f16 : formats::element::f32;
}

formats::gguf_type gguf_type_of(const std::string& type) {
  using formats::gguf_type;
  return type == "bf16"   ? gguf_type::bf16
         : type == "f16"  ? gguf_type::f16
         : type == "q8_0" ? gguf_type::q8_0
                          : gguf_type::f32;
}

causeway::result<int> export_folder(const settings& s, text_codec& codec, const std::string& folder) {
  if (s.out.type == "q8_0") {
    return fail(errc::invalid_argument, "export.type",
                "q8_0 is for GGUF, a file such as model.gguf; use f32, bf16 or f16 for a folder");
  }
  CAUSEWAY_ASSIGN(chosen_model model, trained_model(s, codec));
  const formats::save_options options{.type = element_of(s.out.type), .end_of_text = codec.merges().end_of_text()};
  CAUSEWAY_TRY(formats::save_parameters(folder, model.options(), model.parameters(), options));
  CAUSEWAY_ASSIGN(const bool tokenizer, write_tokenizer(codec, model.context_length(), folder));
  std::printf("%s: model.safetensors (%lld parameters, %s), config.json%s\n", folder.c_str(),
              static_cast<long long>(model.parameters().count()), s.out.type.c_str(),
              tokenizer ? ", tokenizer.json, tokenizer_config.json" : "");
  return 0;
}

causeway::result<int> export_gguf(const settings& s, text_codec& codec, const std::string& file) {
  CAUSEWAY_ASSIGN(chosen_model model, trained_model(s, codec));
  const formats::gguf_options options{.type = gguf_type_of(s.out.type), .name = s.run.name};
  CAUSEWAY_TRY(formats::save_gguf(file, model.options(), model.parameters(), codec.merges(), options));
  std::printf("%s: %lld parameters (%s) and the tokenizer\n", file.c_str(),
              static_cast<long long>(model.parameters().count()), s.out.type.c_str());
  return 0;
}

}  // namespace

causeway::result<int> export_run(const settings& s, text_codec& codec, const std::string& path) {
  if (trains_paths(s) && s.sample.path < 0) {
    return fail(
        errc::invalid_argument, "sample.path",
        "the run has a model for each path; say which with --sample.path 0 to " + std::to_string(path_count(s) - 1));
  }
  const bool named = s.out.format == "auto" && path.ends_with(".gguf");
  return named || s.out.format == "gguf" ? export_gguf(s, codec, path) : export_folder(s, codec, path);
}

}  // namespace app
