package example;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Gives each test a {@link Kafka}. One process serves all tests of the run. */
public final class KafkaExtension implements ParameterResolver, AfterEachCallback {
    private static final Namespace NAMESPACE = Namespace.create(KafkaExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Kafka.class;
    }

    @Override
    public Kafka resolveParameter(ParameterContext parameter, ExtensionContext context) {
        ControlApi api = context.getRoot()
                .getStore(NAMESPACE)
                .getOrComputeIfAbsent("process", key -> start(), ControlApi.class);
        return context.getStore(NAMESPACE)
                .getOrComputeIfAbsent("kafka", key -> new Kafka(api), Kafka.class);
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Kafka kafka = context.getStore(NAMESPACE).remove("kafka", Kafka.class);
        if (kafka == null) {
            return;
        }
        try (kafka) {
            if (context.getExecutionException().isEmpty()) {
                kafka.verifyFaults();
            }
        }
    }

    private static ControlApi start() {
        try {
            return new ControlApi();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
